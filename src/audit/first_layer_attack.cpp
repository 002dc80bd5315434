#include <ATen/ATen.h>

#include "attack/first_layer.hpp"
#include "audit/attack_parts.hpp"
#include "base/key.hpp"

namespace tessera {

Result<AuditAttack> Attacker::first_layer(AuditAttack out, const VictimWork& work,
                                          bool trap) const {
  const auto& model = scene_.session().model();
  const auto layer = tessera::first_layer(model.layout());
  const auto& shape = scene_.federation().sample_shape;
  int64_t inputs = 1;
  for (const int64_t n : shape) inputs *= n;
  if (!layer || layer->inputs != inputs) {
    out.skipped = "the network does not begin with a fully connected layer";
    return out;
  }
  if (trap && scene_.hides_uploads()) {
    out.skipped = "the server sees sums only";
    return out;
  }
  Likenesses all;
  TESSERA_ASSIGN(auto looked_at, victims(work, work.victims));
  if (!looked_at.front()
           .seen.uploaded.narrow(0, layer->weight, layer->rows * layer->inputs)
           .any()
           .item<bool>()) {
    out.skipped = "the first layer stays with the client";
    return out;
  }
  for (auto& one : looked_at) {
    if (trap) {
      auto down = scene_.download(one.clients.front(), Why::kTrain);
      // What a server knows of such pictures it has from elsewhere: other clients' test samples.
      const auto& other = scene_.federation().clients.back();
      const auto known = pixels_of(other.range(Part::kTest, 0, other.size(Part::kTest)).x);
      const auto key = derive(key_, 2, one.clients.front());
      const double gamma = trap_gamma(*layer, known, one.truth.size(), key);
      auto w = with_trap(*layer, one.seen.at.w, {0.1, gamma}, key);
      // The trap is made for pixels; the network sees them shifted and scaled.
      auto rows =
          w.narrow(0, layer->weight, layer->rows * layer->inputs).view({layer->rows, shape[0], -1});
      auto bias = w.narrow(0, layer->bias, layer->rows);
      for (int64_t c = 0; c < shape[0]; ++c) {
        auto channel = rows.select(1, c);
        bias += channel.sum(1) * scale_.mean[static_cast<size_t>(c)];
        channel *= scale_.std[static_cast<size_t>(c)];
      }
      bool altered = false;
      for (auto& [name, tensor] : down) {
        if (tensor.dim() != 1 || !tensor.is_floating_point() ||
            tensor.numel() <= layer->bias + layer->rows - 1 || altered)
          continue;
        tensor = tensor.clone();
        tensor.narrow(0, 0, layer->bias + layer->rows)
            .copy_(w.narrow(0, 0, layer->bias + layer->rows));
        altered = true;
      }
      if (!altered) {
        out.skipped = "the first layer is not sent by the server";
        return out;
      }
      TESSERA_ASSIGN(const auto exchange, scene_.answer(one.clients.front(), work, down));
      TESSERA_ASSIGN(one.seen, seen_in(scene_, exchange));
    }
    compare(one, extract_pictures(*layer, one.gradient(), shape, scale_, 0.05), all);
  }
  out.figures = figures_of(all);
  out.pictures = std::move(all.pictures);
  out.remark = fmt::format("{} clients", looked_at.size());
  return out;
}

}  // namespace tessera
