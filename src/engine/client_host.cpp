#include "engine/client_host.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <cstring>
#include <exception>

#include "base/clock.hpp"
#include "base/key.hpp"
#include "base/text.hpp"
#include "engine/task_check.hpp"
#include "guard/frame.hpp"

namespace tessera {
namespace {

SumAsk sum_ask(const Task& task) { return {task.client, task.round, task.attempt, task.down}; }

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.is_same(b)) return true;
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const auto x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

bool same_message(const TensorDict& a, const TensorDict& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same_bytes(x.second, y.second);
  });
}

}  // namespace

ClientHost::ClientHost(const Session& session, ClientStore& store,
                       std::vector<HostedClient> clients, PersonalSink sink)
    : session_(session), store_(store), sink_(std::move(sink)), held_(session.guard()) {
  clients_.reserve(clients.size());
  for (auto& client : clients) {
    if (client.train == nullptr) client.train = client.own;
    clients_.emplace(client.id, client);
  }
}

const HostedClient* ClientHost::find(ClientId id) const {
  const auto at = clients_.find(id);
  return at == clients_.end() ? nullptr : &at->second;
}

Result<ClientHost::OpenClient> ClientHost::open(const HostedClient& client) {
  OpenClient out{client, nullptr, nullptr};
  TESSERA_ASSIGN(out.own, client.own->open());
  if (client.train == client.own) {
    out.train = out.own;
  } else {
    TESSERA_ASSIGN(out.train, client.train->open());
  }
  out.client.own = out.own.get(), out.client.train = out.train.get();
  return out;
}

bool ClientHost::needs_data(TaskKind kind) const {
  if (kind == TaskKind::kHello) return session_.method().checks_data();
  return kind != TaskKind::kSettle && kind != TaskKind::kGuard;
}

Reply ClientHost::handle(const Task& task) {
  const auto* client = find(task.client);
  if (client == nullptr)
    return refused(task, fail(Error::kNotFound, "there is no client {} here", task.client));
  if (auto wrong = check_task(session_, task, std::nullopt); !wrong.ok())
    return refused(task, std::move(wrong));
  try {
    const auto opened = needs_data(task.kind) ? open(*client) : OpenClient{*client, {}, {}};
    if (!opened.ok())
      return refused(task, at_place(opened.status(), "client " + client->own->name));
    auto reply = answer(task, opened->client);
    // What a failed task has computed so far counts for nothing, on no engine.
    return reply.status.ok() ? reply : refused(task, std::move(reply.status));
  } catch (const std::exception& error) {
    return refused(
        task, fail(Error::kInternal, "method {}, round {}, {}, client {}: {}", session_.info().name,
                   task.round, name_of(task.kind), client->own->name, first_line(error.what())));
  }
}

Reply ClientHost::answer(const Task& task, const HostedClient& client) {
  if (is_frame(task.down)) {
    auto down = from_frame(task.down);
    if (!down.ok()) return refused(task, at_place(down.status(), "the download"));
    auto plain = task;
    plain.down = *std::move(down);
    return answer(plain, client);
  }
  Reply out;
  switch (task.kind) {
    case TaskKind::kHello:
      out = hello(client);
      break;
    case TaskKind::kTrain:
    case TaskKind::kJoin:
      out = train(task, client);
      break;
    case TaskKind::kEvaluate:
      out = evaluate(task, client);
      break;
    case TaskKind::kSettle:
      out = settle(task);
      break;
    case TaskKind::kGuard:
      out = guard(task);
      break;
  }
  out.client = task.client, out.kind = task.kind;
  out.round = task.round, out.attempt = task.attempt;
  return out;
}

Reply ClientHost::hello(const HostedClient& client) const {
  const auto& data = *client.own;
  Reply out;
  out.hello = {data.name, data.size(Part::kTrain), data.size(Part::kVal), data.size(Part::kTest),
               data.size(Part::kSupport)};
  if (session_.method().checks_data()) out.status = session_.method().check(data);
  out.status.Update(check_voters(session_, client.id, data));
  out.status = at_place(out.status, "client " + data.name);
  return out;
}

Local ClientHost::before_training(const HostedClient& client, const Setup& setup) const {
  return {{session_.model(), *client.own, 0, 0}, setup, client.id, session_.is_newcomer(client.id)};
}

TensorDict ClientHost::state_of(const HostedClient& client) const {
  if (auto state = store_.get(client.id)) {
    take_memory(*state);
    return *std::move(state);
  }
  const Setup setup = session_.client_setup(0);
  return session_.method().init_client(before_training(client, setup));
}

Status ClientHost::restore(ClientId id, TensorDict state) {
  const auto* client = find(id);
  if (client == nullptr) return fail(Error::kInvalid, "there is no client {} here", id);
  auto own = state;
  TESSERA_RETURN_IF_ERROR(at_place(session_.guard().check_memory(take_memory(own)),
                                   "the state of client " + client->own->name));
  TESSERA_ASSIGN(const auto opened, open(*client));
  try {
    const Setup setup = session_.client_setup(0);
    session_.method().check_client(own, before_training(opened.client, setup));
  } catch (const std::exception& error) {
    return fail(Error::kInvalid, "the state of client {} is none of method {}: {}",
                client->own->name, session_.info().name, first_line(error.what()));
  }
  return store_.restore(id, std::move(state));
}

Reply ClientHost::train(const Task& task, const HostedClient& client) {
  const bool joins = task.kind == TaskKind::kJoin;
  // Every onboarding meets the newcomer as a stranger. A newcomer never trains, so all that it can
  // have is what an earlier onboarding left; nobody else gets here (check_task).
  if (joins && task.attempt == 1)
    if (auto status = store_.forget(client.id); !status.ok()) return refused(task, status);
  const double start = thread_cpu_seconds();
  double spent = 0;
  AnyStep step;
  if (auto kept = take_kept(task)) {
    step = std::move(kept->step), spent = kept->cpu_seconds;
  } else {
    const auto key = derive(session_.seed(), Purpose::kLocal, task.round, client.id);
    const Setup setup = session_.client_setup(task.round);
    // Exchanges of one onboarding belong to one round; each needs its own order of batches.
    const Local local{
        {session_.model(), *client.train, task.round, joins ? derive(key, task.attempt) : key},
        setup,
        client.id,
        session_.is_newcomer(client.id),
        joins ? Why::kJoin : Why::kTrain};
    step = session_.method().local_update(state_of(client), task.down, local);
    spent = thread_cpu_seconds() - start;
  }
  Reply out;
  if (joins)
    step.upload = session_.guard().protect(
        std::move(step.upload), task.down,
        derive(session_.seed(), Purpose::kGuard, task.round, task.client, task.attempt));
  else
    out.status = seal(task, step);
  if (out.status.ok())
    out.status = store_.stage(client.id, task.round, task.attempt, std::move(step.next));
  out.up = std::move(step.upload);
  out.loss = session_.guard().hides_loss() && !session_.guard().hides() ? std::nan("") : step.loss;
  out.cpu_seconds = spent;
  return out;
}

Status ClientHost::seal(const Task& task, AnyStep& step) {
  const auto key = derive(session_.seed(), Purpose::kGuard, task.round, task.client);
  if (session_.guard().hides()) {
    TESSERA_ASSIGN(step.upload, held_.hold(sum_ask(task), std::move(step.upload),
                                           std::exchange(step.loss, 0), key));
    return ok();
  }
  auto state = store_.get(task.client).value_or(TensorDict{});
  auto memory = take_memory(state);
  TESSERA_ASSIGN(step.upload,
                 session_.guard().seal(std::move(step.upload), task.down, key, memory));
  put_memory(step.next, std::move(memory));
  return ok();
}

Reply ClientHost::evaluate(const Task& task, const HostedClient& client) {
  const auto& method = session_.method();
  const auto& model = session_.model();
  const bool newcomer = session_.is_newcomer(client.id);
  const Setup setup = session_.client_setup(task.round);
  Local local{{model, *client.own, task.round,
               derive(session_.seed(), Purpose::kLocal, task.round, client.id)},
              setup,
              client.id,
              newcomer,
              Why::kEvaluate};
  const auto measured = [&](const auto& predict, Part part) {
    return measure(predict, *client.own, part, session_.loss());
  };
  const auto state = state_of(client);
  Reply out;
  Evaluation result{.client = client.id};
  const auto show = [&](View view, const Personal& personal) {
    const bool pre = view == View::kPre;
    const auto tested = predict_part(personal.predict, *client.own, Part::kTest, session_.loss());
    (pre ? result.pre_test : result.post_test) = metrics_of(tested);
    if (task.last && tested.classes <= kMostConfusionClasses)
      (pre ? result.pre_confusion : result.post_confusion) = confusion_of(tested);
    (pre ? result.pre_val : result.post_val) = measured(personal.predict, Part::kVal);
    if (task.last && sink_)
      out.status.Update(sink_({client.id, view, personal, pre ? result.pre_val : result.post_val,
                               pre ? result.pre_test : result.post_test,
                               [&] { return make_voters(session_, state, task.down, local); }}));
    if (!pre) result.notes = personal.notes;
    if (!pre || !task.global) return;
    // The common case, FedAvg: what a client holds is the global model itself.
    const bool same = personal.weights && same_bytes(personal.weights->w, task.global->w) &&
                      same_bytes(personal.weights->b, task.global->b) && !personal.model;
    const auto predict = [&](const Tensor& x) { return model.predict(*task.global, x); };
    result.global_test = same ? result.pre_test : measured(predict, Part::kTest);
    result.global_val = same ? result.pre_val : measured(predict, Part::kVal);
  };
  if (const auto pre = method.personalize(state, task.down, local, View::kPre)) {
    show(View::kPre, *pre);
    show(View::kPost, *method.personalize(state, task.down, local, View::kPost));
  } else {
    const double start = thread_cpu_seconds();
    if (!newcomer) local.why = Why::kTrain;
    auto step = method.local_update(state, task.down, local);
    const double spent = thread_cpu_seconds() - start;
    if (!step.before || !step.after)
      throw std::logic_error("local_update gives no models and there is no personalize");
    show(View::kPre, plain(model, *step.before));
    auto post = plain(model, *step.after);
    post.notes = std::move(step.notes);
    show(View::kPost, post);
    // A dump has to see the batches when they are trained on.
    if (task.keep_step && client.train == client.own) {
      step.before.reset(), step.after.reset();
      keep(client.id, {task.round, task.down, std::move(step), spent});
    }
  }
  out.evaluation = std::move(result);
  if (newcomer) out.status.Update(store_.forget(client.id));
  return out;
}

Reply ClientHost::guard(const Task& task) {
  Reply out;
  const double start = thread_cpu_seconds();
  auto answer = held_.answer(sum_ask(task));
  out.status = answer.status();
  if (answer.ok()) out.up = *std::move(answer);
  out.cpu_seconds = thread_cpu_seconds() - start;
  return out;
}

Reply ClientHost::settle(const Task& task) {
  Reply out;
  held_.drop(sum_ask(task));
  const auto changed = store_.settle(task.client, task.round, task.attempt, task.accepted);
  if (!changed.ok())
    out.status = changed.status();
  else if (*changed)
    drop_kept(task.client);
  return out;
}

std::optional<ClientHost::KeptStep> ClientHost::take_kept(const Task& task) {
  const std::scoped_lock guard(mutex_);
  const auto at = kept_.find(task.client);
  if (at == kept_.end()) return std::nullopt;
  auto kept = std::move(at->second);
  kept_.erase(at);
  bytes_kept_ -= kept.bytes();
  if (task.kind != TaskKind::kTrain || kept.round != task.round ||
      !same_message(kept.down, task.down))
    return std::nullopt;
  return kept;
}

void ClientHost::keep(ClientId client, KeptStep step) {
  drop_kept(client);
  const std::scoped_lock guard(mutex_);
  if (bytes_kept_ + step.bytes() > most_kept_) return;
  bytes_kept_ += step.bytes();
  kept_.emplace(client, std::move(step));
}

void ClientHost::drop_kept(ClientId client) {
  const std::scoped_lock guard(mutex_);
  const auto at = kept_.find(client);
  if (at == kept_.end()) return;
  bytes_kept_ -= at->second.bytes();
  kept_.erase(at);
}

}  // namespace tessera
