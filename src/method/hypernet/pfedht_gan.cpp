// pFedHT with its federated GAN (Liu et al., eqs. 9, 10, 21, 22; docs/methods.md §7.6): beside the
// Transformer clients train a generator and a discriminator of pictures, which are averaged; what
// the common generator makes joins a client's training data, or stands in for them.
// Deviations: those of pFedHT and of fedavg-gan. Made pictures are of classes the client has,
// unless gan_classes = all: its own model is judged by them.

#include "method/any_method.hpp"
#include "method/gan_round.hpp"
#include "method/hypernet/pfedht.hpp"

namespace tessera {
namespace {

struct PFedHTGan : PFedHT {
  struct Server {
    PFedHT::Server base;
    GanWeights gan;
    static void fields(auto& m, auto&& f) { PFedHT::Server::fields(m.base, f), f("gan", m.gan); }
  };
  struct Down : PFedHT::Down {
    std::optional<GanWeights> gan;  // not for newcomers
    static void fields(auto& m, auto&& f) { PFedHT::Down::fields(m, f), f("gan", m.gan); }
  };
  struct Up {
    PFedHT::Up base;
    std::optional<Trained<GanWeights, &Down::gan>> gan;  // not of newcomers
    static void fields(auto& m, auto&& f) { PFedHT::Up::fields(m.base, f), f("gan", m.gan); }
  };

  PFedHTGan() { gan.use.classes = "own"; }
  GanRound gan;
  static void options(auto& m, auto&& f) {
    PFedHT::options(m, f);
    GanRound::options(m.gan, f);
  }

  Status check(const Setup& setup) const {
    TESSERA_RETURN_IF_ERROR(PFedHT::check(setup));
    return GanRound::check("pfedht-gan", setup.model);
  }
  Status check(const Client& me, const Setup& setup) const { return PFedHT::check(me, setup); }

  Server init_server(const Setup& setup) const {
    return {PFedHT::init_server(setup), GanRound::init(setup.model, setup.key)};
  }
  void broadcast(const Server& server, std::span<const Ask<Guest>> asks, const Setup& setup,
                 const Send<Down, Guest>& send) const {
    PFedHT::broadcast(server.base, asks, setup, [&](const auto& ask, PFedHT::Down down) {
      Down out{std::move(down), std::nullopt};
      if (ask.why == Why::kTrain) out.gan = server.gan;
      // Views need no discriminator, and a generator only where it is used.
      if (ask.why == Why::kEvaluate && gan.use.due(setup.round, setup.rounds))
        out.gan = {server.gan.generator, at::empty({0})};
      send(ask, std::move(out));
    });
  }

  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    if (!down.gan) return joined(PFedHT::local_update(me, down, local), std::nullopt);
    const auto pairs = pairs_of(me, down, local);
    const auto data = gan.training_data(local, pairs.model, down.gan->generator);
    auto step = PFedHT::local_update(me, down, on(local, *data));
    step.upload.samples = samples_of(local);
    return joined(std::move(step), gan.learned(local, *pairs.gan, *down.gan));
  }
  Up expected(const Server& server, Why why, const Setup& setup) const {
    Up up{PFedHT::expected(server.base, why, setup), std::nullopt};
    if (why != Why::kJoin) up.gan = server.gan;
    return up;
  }
  Server aggregate(Server server, std::span<const Received<Up>> uploads, const Setup& setup) const {
    std::vector<Received<PFedHT::Up>> bases;
    std::vector<Tensor> generators, discriminators;
    std::vector<double> weights;
    for (const auto& [client, up] : uploads) {
      bases.push_back({client, up.base});
      const GanWeights& learned = *up.gan;
      generators.push_back(learned.generator), discriminators.push_back(learned.discriminator);
      weights.push_back(up.base.samples);
    }
    server.base = PFedHT::aggregate(std::move(server.base), bases, setup);
    server.gan = {mean(generators, weights), mean(discriminators, weights)};
    return server;
  }

  // The GAN is no part of a view, so an evaluation does not train it.
  Personal personalize(const Client& me, const Down& down, const Local& local, View view) const {
    if (view == View::kPre) return plain(local.model, PFedHT::start(me, down, local));
    if (!down.gan) return plain(local.model, PFedHT::local_update(me, down, local).after.value());
    const auto pairs = pairs_of(me, down, local);
    const auto data = gan.training_data(local, pairs.model, down.gan->generator);
    return plain(local.model, PFedHT::local_update(me, down, on(local, *data)).after.value());
  }

  Guest learn(const Server& server, const Guest* guest, const Up& up, const Setup& setup) const {
    return PFedHT::learn(server.base, guest, up.base, setup);
  }
  std::vector<Exhibit> exhibits(const Server& server, const Evaluated& evaluated,
                                const Setup& setup) const {
    auto out = PFedHT::exhibits(server.base, evaluated, setup);
    out.push_back(GanRound::exhibit(setup.model, server.gan.generator, setup.key));
    return out;
  }

 private:
  GanRound::Pairs pairs_of(const Client& me, const Down& down, const Local& local) const {
    return GanRound::pairs(local, PFedHT::start(me, down, local), train);
  }
  static Step<Client, Up> joined(Step<Client, PFedHT::Up> step, std::optional<GanWeights> learned) {
    return {std::move(step.next), {std::move(step.upload), std::move(learned)}, step.loss};
  }
};

}  // namespace

MethodInfo pfedht_gan() {
  return describe<PFedHTGan>(
      {.name = "pfedht-gan",
       .line = "pfedht with pictures from a generator all train together",
       .paper = "Liu et al. (pFedHT)",
       .equation = "eqs. 9 to 22, Algorithm 2",
       .section = "7.6",
       .down = "d + d_G + d_D",
       .up = "d + d_G + d_D",
       .exposure =
           {.server =
                {{.tensor = "eta.w", .words = "its shared part", .covers = Covers::kNotAttention},
                 {.tensor = "delta",
                  .words = "how it changed the projections made for it",
                  .covers = Covers::kAttention},
                 {.tensor = "gan.generator", .words = "its generator", .covers = Covers::kNone},
                 {.tensor = "gan.discriminator",
                  .words = "its discriminator",
                  .covers = Covers::kNone}},
            .peers = Shown::kMixed,
            .sent = "the mean shared part, generator and discriminator, and projections "
                    "made for them",
            .remark = "the server keeps an embedding, which groups similar clients"},
       .headline = View::kPost,
       .beyond_sgd = kGanBeyond,
       .all_virtual = true});
}

}  // namespace tessera
