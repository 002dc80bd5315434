# Ranks of mpirun (src/engine/mpi). Optional: without MPI the program is the same, but says that it cannot be started
# by mpirun. The C interface only; no other part sees mpi.h.
find_package(MPI QUIET COMPONENTS C)
if(MPI_C_FOUND)
  message(STATUS "MPI: ${MPI_C_VERSION}")
  target_compile_definitions(engine_mpi PRIVATE TESSERA_MPI OMPI_SKIP_MPICXX)
  target_include_directories(engine_mpi SYSTEM PRIVATE ${MPI_C_INCLUDE_DIRS})
  target_link_libraries(engine_mpi PUBLIC ${MPI_C_LIBRARIES})
  set(TESSERA_MPI_LIBRARIES ${MPI_C_LIBRARIES})
  find_program(TESSERA_MPIRUN mpirun)
else()
  message(STATUS "MPI: not found; the program will not run on several ranks (libopenmpi-dev)")
endif()
