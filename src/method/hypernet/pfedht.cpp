#include "method/hypernet/pfedht.hpp"

#include "method/any_method.hpp"

namespace tessera {

MethodInfo pfedht() {
  return describe<PFedHT>(
      {.name = "pfedht",
       .line = "a hypernetwork makes every client's attention projections",
       .paper = "Liu et al. (pFedHT); Li et al. (FedTP), 2023",
       .equation = "eqs. 11 to 20, Algorithm 2",
       .section = "7.4",
       .down = "d",
       .up = "d",
       .exposure = {.server = {{.tensor = "eta.w",
                                .words = "its shared part",
                                .covers = Covers::kNotAttention},
                               {.tensor = "delta",
                                .words = "how it changed the projections made for it",
                                .covers = Covers::kAttention}},
                    .peers = Shown::kMixed,
                    .sent = "the mean shared part and projections made for them",
                    .remark = "the server keeps an embedding, which groups similar clients"},
       .headline = View::kPost,
       .beyond_sgd = ""});
}

}  // namespace tessera
