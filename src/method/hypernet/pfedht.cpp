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
       .exposure = "the server gets its shared part and how it changed the projections made for it",
       .headline = View::kPost});
}

}  // namespace tessera
