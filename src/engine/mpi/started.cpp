#include <cstdlib>

#include "base/text.hpp"
#include "engine/mpi/world.hpp"

namespace tessera {

Started started_by_mpirun() {
  const auto number = [](const char* name, int otherwise) {
    const char* text = std::getenv(name);
    const auto value = text ? whole_number(text) : std::nullopt;
    return value && *value < (1 << 24) ? static_cast<int>(*value) : otherwise;
  };
  Started out{.rank = number("OMPI_COMM_WORLD_RANK", 0),
              .size = number("OMPI_COMM_WORLD_SIZE", 1),
              .local_size = number("OMPI_COMM_WORLD_LOCAL_SIZE", 1)};
  if (out.size < 1 || out.rank >= out.size) return {};
  return out;
}

#ifndef TESSERA_MPI
Result<std::unique_ptr<World>> enter_world() {
  return fail(Error::kInvalid,
              "mpirun has started {} processes, but this program was built without MPI: install "
              "libopenmpi-dev and build again, or start one process",
              started_by_mpirun().size);
}
#endif

}  // namespace tessera
