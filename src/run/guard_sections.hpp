// Sections [[guard]] of an experiment: names, options, text, and which guards exclude each other.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/options.hpp"
#include "guard/options.hpp"
#include "method/any_method.hpp"

namespace tessera {

/// In the order in which they act.
std::vector<std::string> guard_names();
/// The options of a guard, which is put there if it was not; empty for an unknown name. They point
/// into `guards`.
std::vector<BoundOption> guard_options(GuardOptions& guards, const std::string& name);
/// What is written in an experiment's file; empty without guards.
std::string guards_text(GuardOptions guards);
/// Guards that would undo or void another one, or that the method has no use for: name and one
/// sentence.
std::vector<std::pair<std::string, std::string>> guard_conflicts(const GuardOptions& guards,
                                                                 const MethodInfo& method,
                                                                 const TrainOptions& train = {});
/// [train] as it is behind the guards that act inside of it, in a run of this seed.
TrainOptions guarded_train(TrainOptions train, const GuardOptions& guards, uint64_t seed);
/// Whether clients with such data can train behind them: kInvalid in one sentence.
Status check_guards(const GuardOptions& guards, const ClientData& data);
/// Whether the network can be trained behind them: kInvalid in one sentence.
Status check_guards(const GuardOptions& guards, const Model& model, const std::string& name);
/// Whether answers of models that were trained so, of so many classes, can go through them:
/// kInvalid in one sentence. The loss of `train` is the one that the data chose.
Status check_guards(const AnswerGuards& guards, const MethodInfo& method, const TrainOptions& train,
                    int64_t classes);

}  // namespace tessera
