#include "engine/client_runtime.hpp"

#include <exception>

#include "base/clock.hpp"
#include "base/key.hpp"

namespace tessera {

ClientRuntime::ClientRuntime(const ClientContext& context, ClientId id, const ClientData& own,
                             const ClientData& train, bool newcomer)
    : context_(context), id_(id), own_(own), train_(train), newcomer_(newcomer) {}

const TensorDict& ClientRuntime::state() {
  // Made at first use: with thousands of clients most never work in a short run.
  if (!state_) state_ = context_.method.init_client(context_.setup, id_);
  return *state_;
}

Local ClientRuntime::local(const Outgoing& message, const ClientData& data) const {
  const auto key = derive(context_.seed, Purpose::kLocal, message.round, id_);
  // Exchanges of one onboarding belong to one round; each needs its own order of batches.
  return {context_.setup.model, data, message.round,
          message.exchange > 0 ? derive(key, message.exchange) : key, newcomer_};
}

Reply ClientRuntime::update(const Outgoing& message) {
  Reply reply{.client = id_, .base_round = message.round};
  const double start = thread_cpu_seconds();
  next_.reset();
  try {
    auto step = context_.method.local_update(state(), message.down, local(message, train_));
    next_ = std::move(step.next);
    reply.up = std::move(step.upload);
    reply.loss = step.loss;
  } catch (const std::exception& error) {
    reply.status = fail(Error::kInternal, "method {}, round {}, client {}: {}",
                        context_.method_name, message.round, id_, error.what());
  }
  reply.cpu_seconds = thread_cpu_seconds() - start;
  return reply;
}

void ClientRuntime::acknowledge(bool accepted) {
  if (accepted && next_) state_ = std::move(next_);
  next_.reset();
}

Evaluation ClientRuntime::evaluate(const EvalRequest& request, const PersonalSink& sink) {
  Evaluation out{.client = id_};
  const auto& model = context_.setup.model;
  const auto measured = [&](const auto& predict, Part part) {
    return measure(predict, own_, part, context_.loss);
  };
  try {
    const auto here = local(request.message, own_);
    const auto& down = request.message.down;
    {
      const auto pre = context_.method.personalize(state(), down, here, View::kPre);
      out.pre_test = measured(pre.predict, Part::kTest);
      out.pre_val = measured(pre.predict, Part::kVal);
      if (sink) out.status.Update(sink(id_, View::kPre, pre));
      if (request.global) {
        // The common case, FedAvg: what a client holds is the global model itself.
        const bool same = pre.weights && pre.weights->w.is_same(request.global->w);
        const auto predict = [&](const Tensor& x) { return model.predict(*request.global, x); };
        out.global_test = same ? out.pre_test : measured(predict, Part::kTest);
        out.global_val = same ? out.pre_val : measured(predict, Part::kVal);
      }
    }
    const auto post = context_.method.personalize(state(), down, here, View::kPost);
    out.post_test = measured(post.predict, Part::kTest);
    out.post_val = measured(post.predict, Part::kVal);
    if (sink) out.status.Update(sink(id_, View::kPost, post));
    out.notes = post.notes;
  } catch (const std::exception& error) {
    out.status = fail(Error::kInternal, "method {}, evaluation after round {}, client {}: {}",
                      context_.method_name, request.message.round - 1, id_, error.what());
  }
  return out;
}

}  // namespace tessera
