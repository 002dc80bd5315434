// Who gets to see what of a client: declared in a method's line, checked against its messages.
//
// What a tensor of an upload is follows from its type (method/message.hpp), and so do running
// statistics of batch norms, how many samples a client has, and whether uploads can be summed. What
// cannot be derived is declared: how people call it, and what the others are sent. The conformance
// suite compares the list with real uploads of every method of the table.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensor/layout.hpp"
#include "tensor/message_parts.hpp"

namespace tessera {

/// kModel: trained numbers as they are. kChange: how they differ from what was sent. kGradient: the
/// change itself, undivided. kStatistics: sums or means over samples. kData: the samples.
enum class Tells { kModel, kChange, kGradient, kStatistics, kData };
/// Which of a model's numbers a tensor holds. kBase, kTop: all but the last layers, and these.
/// kFirst: all, and behind them those of other networks. kNone: another network's.
enum class Covers { kAll, kBase, kTop, kNotNorms, kNotAttention, kAttention, kFirst, kNone };

/// One thing that leaves a client.
struct Told {
  std::string tensor;          // its name in the upload: "value.w"
  Tells what = Tells::kModel;  // by its type (settle_exposure), or kData
  std::string words;           // for people: "its trained model"
  Covers covers = Covers::kAll;
  int64_t copies = 1;     // of that many numbers: 2 for a model and its rates
  std::string only = "";  // when it is sent: an option or a stretch of rounds; empty: always
};

/// How much of one client there is in what the others are sent. kSum: no more than in the sum over
/// the round's clients. kMixed: mixtures, or what the server learned, in which some clients count
/// more than others. kSingle: the upload itself.
enum class Shown { kNothing, kSum, kMixed, kSingle };

struct Exposure {
  std::vector<Told> server = {};  // what the server gets; empty: nothing
  Shown peers = Shown::kNothing;
  std::string sent = "";    // what the others are sent: "the mean"
  std::string stays = "";   // what never leaves: "its head"
  bool kept = false;        // the server keeps everybody's latest upload
  bool rest_known = false;  // what stays is random and the same for all: the server knows it
  std::string remark = "";  // what else matters

  bool declared() const { return !server.empty() || peers == Shown::kNothing; }
};

/// Fills in what each told tensor is, by its type. Throws std::logic_error if uploads have no such
/// tensor.
void settle_exposure(Exposure& exposure, const MessageParts& parts);

/// "model", "change", …; "nothing", "sum", "mixture", "single"; for programs.
std::string name_of(Tells what);
std::string name_of(Shown shown);

/// Where a tensor of `numel` numbers lies in a model's flat vector: positions (int64, ascending) of
/// its first numbers.
/// How many layers kBase and kTop leave or hold follows from the number. Throws
/// std::invalid_argument if no part of this kind has so many.
Tensor covered(const Layout& layout, Covers covers, int64_t numel);

/// "its trained base (what = model) …": all of it in one sentence, for lists.
std::string sentence(const Exposure& exposure);

/// A line for each who looks: "server", "peers", "user", "stays".
struct Sight {
  std::string who, what;
};
/// What the guards of a run (by name, as in [[guard]]) leave of it. `sums`: the server needs no
/// more than the sum of uploads, so that secure aggregation can hide each.
std::vector<Sight> sights(const Exposure& exposure, bool sums,
                          const std::vector<std::string>& guards = {});
/// Whether the server itself sees sums only.
bool hides_uploads(bool sums, const std::vector<std::string>& guards);

}  // namespace tessera
