// Fed_T_A (Zhang and Liu, "Personalized Federated Learning with Attention Mechanisms", §3.3):
// FedAvg; then every client inserts a convolutional block attention module in front of the first
// linear layer of its own copy of g, freezes the convolutions and trains the rest.
//
// Deviations (docs/methods.md §3.2). The paper's F'' = Mc(F') F is read as Ms(F') F'. It trains the
// linear layers after the first; train_fc1 = true trains that one too, as its Fed_T does. The gates
// have biases and the module's output a constant factor, so that a new module leaves g's
// predictions alone. Batch norms above the convolutions are trained. Epochs and rate are unstated.

#include "method/any_method.hpp"
#include "method/fedavg.hpp"
#include "model/cbam.hpp"
#include "train/transfer.hpp"

namespace tessera {
namespace {

constexpr int64_t kShownImages = 4;  // per client

struct FedTA : FedAvg {
  CbamOptions module;
  bool train_fc1 = true;
  int64_t show = 3;
  TransferOptions transfer;
  static void options(auto& m, auto&& f) {
    f(between("reduction", 1, 1e6, "channels per hidden unit of the channel attention"),
      m.module.reduction);
    f(between("kernel", 0, 999, "odd side of the spatial attention; 0: 7, or what fits"),
      m.module.kernel);
    f(between("bias", -10, 10, "of the new gates; 4 is nearly open"), m.module.bias);
    f(any("neutral",
          "new gates change no prediction and move at full slope: bias 0, the last weights 0"),
      m.module.neutral);
    f(above("std", 0, "deviation of the module's other first weights"), m.module.std);
    f(any("train_fc1", "train the first linear layer, too"), m.train_fc1);
    TransferOptions::options(m.transfer, f);
    auto show =
        at_least("show", 0, "the first clients show 4 test images in the report; 0: none leaves");
    show.shows_samples = true;
    f(show, m.show);
  }

  Status check(const Setup& setup) const {
    const auto* net = convolutional(setup.model);
    if (!net)
      return fail(Error::kInvalid,
                  "Method 'fed_t_a' attends to feature maps, and this model has no convolutions: "
                  "choose lenet, lenet16, lenet16-bn, facnn, cnn32-s, cnn128, alex28 or alex28-s.");
    const auto& map = net->map_shape();
    const int64_t kernel = module.kernel, widest = 2 * std::min(map[1], map[2]) - 1;
    if (kernel > widest || (kernel > 0 && kernel % 2 == 0))
      return fail(Error::kInvalid,
                  "method.kernel = {} must be odd and at most {}, because the model's feature maps "
                  "are {} x {}; 0 chooses {}.",
                  kernel, widest, map[1], map[2], kernel_for(map));
    return ok();
  }

  Personal personalize(const Client&, const Down& g, const Local& local, View view) const {
    if (view == View::kPre || !transfer.due(local.round, local.setup.rounds))
      return plain(local.model, g);
    const Sequential& net = *convolutional(local.model);
    const auto above = std::make_shared<const Cbam>(net.upper(), module);
    const auto fitted = fit(*above, net, g, local);
    Personal out;
    out.predict = [&net, above, g, fitted](const Tensor& x) {
      return above->predict(fitted, net.maps(g, x));
    };
    out.weights = joined(cut(net, g).below, fitted);
    // The run's model outlives everything here, so nobody has to own it.
    const std::shared_ptr<const Sequential> borrowed(std::shared_ptr<void>(), &net);
    out.model = std::make_shared<Cbam>(borrowed, module);
    // Newcomers, whose numbers follow the clients', show nothing.
    if (local.client < std::min(show, local.setup.clients))
      out.notes = shown(*above, fitted, net, g, local.data);
    return out;
  }

  // Stage 2. The convolutions stand still, so only what lies above their output is trained.
  Weights fit(const Cbam& above, const Sequential& net, const Weights& g, const Site& site) const {
    Job job;
    if (!train_fc1) job.only = all_but_first(above.layout());
    const auto data = training_maps(net, g, site.data);
    const auto start = above.inserted(cut(net, g).above, site.key);
    return local_sgd(start, {above, data, site.round, site.key}, transfer.stage2(train), job)
        .weights;
  }

  // For the report: test images in grey [k, H, W], and the attention paid to them.
  TensorDict shown(const Cbam& above, const Weights& fitted, const Sequential& net,
                   const Weights& g, const ClientData& data) const {
    const int64_t n = std::min(kShownImages, data.size(Part::kTest));
    if (n == 0) return {};
    const auto x =
        data.range(Part::kTest, 0, n)
            .x.reshape({n, net.spec().sample[0], net.spec().sample[1], net.spec().sample[2]});
    const auto gates = above.gates(fitted, net.maps(g, x));
    return {
        {"image", x.mean(1)}, {"spatial", gates.spatial.squeeze(1)}, {"channel", gates.channel}};
  }

  // Whether notes are what shown() gives; a client may tell anything.
  static bool are_shown(const TensorDict& notes, const Sequential& net) {
    const auto fits = [&](const char* name, const std::vector<int64_t>& one) {
      const auto note = notes.find(name);
      return note != notes.end() && note->second.scalar_type() == at::kFloat &&
             note->second.dim() > 0 && note->second.sizes().slice(1) == one;
    };
    const auto &sample = net.spec().sample, &map = net.map_shape();
    return fits("image", {sample[1], sample[2]}) && fits("spatial", {map[1], map[2]}) &&
           fits("channel", {map[0]}) && notes.at("image").size(0) == notes.at("spatial").size(0);
  }
  std::vector<Exhibit> exhibits(const Server&, const Evaluated& evaluated,
                                const Setup& setup) const {
    std::vector<Tensor> pictures, channels;
    std::vector<std::string> rows, clients;
    for (const auto& [id, note] : evaluated.notes) {
      if (!are_shown(note, *convolutional(setup.model))) continue;
      const auto& image = note.at("image");
      const auto spatial =
          at::upsample_nearest2d(note.at("spatial").unsqueeze(1), image.sizes().slice(1))
              .squeeze(1);
      pictures.push_back(at::stack({stretched(image), spatial, stretched(spatial)}, 1));
      channels.push_back(note.at("channel").mean(0));
      clients.push_back(fmt::format("client {}", id));
      for (int64_t i = 0; i < image.size(0); ++i)
        rows.push_back(fmt::format("client {}, test image {}", id, i + 1));
    }
    if (pictures.empty()) return {};
    return {{"cbam",
             "Spatial attention of the fitted clients",
             Exhibit::Kind::kImages,
             at::cat(pictures),
             rows,
             {"image", "spatial gate", "gate, stretched"}},
            {"channels", "Mean channel gate over these images", Exhibit::Kind::kMatrix,
             at::stack(channels), clients, names(channels.front().size(0))}};
  }

  // Every picture [k, H, W] from its darkest to its brightest value.
  static Tensor stretched(const Tensor& pictures) {
    const auto low = pictures.amin({1, 2}, true), high = pictures.amax({1, 2}, true);
    return (pictures - low) / (high - low).clamp_min(1e-6);
  }
  static std::vector<std::string> names(int64_t channels) {
    std::vector<std::string> out;
    for (int64_t c = 0; c < channels; ++c) out.push_back(std::to_string(c));
    return out;
  }
};

}  // namespace

MethodInfo fed_t_a() {
  return describe<FedTA>(
      {.name = "fed_t_a",
       .line = "fed_t with attention in front of the linear layers",
       .paper = "Zhang and Liu, Personalized Federated Learning with Attention "
                "Mechanisms",
       .equation = "section 3.3",
       .section = "3.2",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "value.w", .words = "its trained model"}},
                    .peers = Shown::kSum,
                    .sent = "the mean",
                    .stays = "its fitted copy"},
       .headline = View::kPost,
       .beyond_sgd = "trains attention maps in its second stage, with gradients of its own"});
}

}  // namespace tessera
