# The messages of a federation (src/engine/grpc/federation.proto), and what speaks them.
find_package(Protobuf REQUIRED)
find_library(GRPCPP_LIBRARY grpc++ REQUIRED)
find_library(GRPC_LIBRARY grpc REQUIRED)
find_library(GPR_LIBRARY gpr REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

set(proto ${CMAKE_SOURCE_DIR}/src/engine/grpc/federation.proto)
set(made ${CMAKE_BINARY_DIR}/generated/engine/grpc/federation)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated/engine/grpc)
add_custom_command(
  OUTPUT ${made}.pb.cc ${made}.pb.h ${made}.grpc.pb.cc ${made}.grpc.pb.h
  COMMAND protobuf::protoc --proto_path=${CMAKE_SOURCE_DIR}/src --cpp_out=${CMAKE_BINARY_DIR}/generated
          --grpc_out=${CMAKE_BINARY_DIR}/generated --plugin=protoc-gen-grpc=${GRPC_CPP_PLUGIN}
          engine/grpc/federation.proto
  DEPENDS ${proto} VERBATIM)
# Made by protoc: not held to our warnings, and apart from unity builds and the precompiled header.
add_library(federation_proto STATIC ${made}.pb.cc ${made}.grpc.pb.cc)
set_target_properties(federation_proto PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
target_include_directories(federation_proto SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/generated)
target_link_libraries(federation_proto PUBLIC protobuf::libprotobuf ${GRPCPP_LIBRARY} ${GRPC_LIBRARY} ${GPR_LIBRARY})
target_compile_options(federation_proto PRIVATE -O1)
set_property(GLOBAL APPEND PROPERTY TESSERA_PARTS federation_proto)
target_link_libraries(engine_grpc PUBLIC federation_proto)
