# libtessera.so: all parts as one library. The program, plugins and the conformance suite link it, so
# that a process has one copy of every type and table (docs/decisions/014-one-shared-library.md).
# Tests of single folders link the static parts.
get_property(parts GLOBAL PROPERTY TESSERA_PARTS)
add_library(libtessera SHARED)
foreach(part IN LISTS parts)
  target_sources(libtessera PRIVATE $<TARGET_OBJECTS:${part}>)
endforeach()
set_target_properties(libtessera PROPERTIES
  OUTPUT_NAME tessera EXPORT_NAME tessera LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
target_link_options(libtessera PRIVATE -Wl,-Bsymbolic-functions -Wl,--no-undefined)
target_link_libraries(libtessera PRIVATE tessera_torch ZLIB::ZLIB LibLZMA::LibLZMA ${ZSTD_LIBRARY}
                      SQLite::SQLite3 OpenSSL::SSL OpenSSL::Crypto CURL::libcurl
                      protobuf::libprotobuf ${GRPCPP_LIBRARY} ${GRPC_LIBRARY} ${GPR_LIBRARY} ${TESSERA_MPI_LIBRARIES} ${CMAKE_DL_LIBS})
add_library(Tessera::tessera ALIAS libtessera)

add_executable(tessera src/cli/main.cpp)
target_link_libraries(tessera PRIVATE libtessera tessera_torch)
set_target_properties(tessera PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

# The program knows its commands best: it writes its own man page and completions.
set(manual ${CMAKE_BINARY_DIR}/manual)
add_custom_command(
  OUTPUT ${manual}/tessera.1.gz ${manual}/tessera
  COMMAND ${CMAKE_COMMAND} -E make_directory ${manual}
  COMMAND tessera help --man | gzip -9n > ${manual}/tessera.1.gz
  COMMAND tessera help --completion > ${manual}/tessera
  DEPENDS tessera VERBATIM)
add_custom_target(manual ALL DEPENDS ${manual}/tessera.1.gz ${manual}/tessera)
