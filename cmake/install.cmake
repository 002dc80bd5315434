# `cmake --install BUILD --prefix P`, and packages by cpack. Component `runtime`: the program, its
# library, man page and completions. Component `dev`: headers, find_package(Tessera) and the
# conformance suite, for methods outside the tree (examples/own-method).
# Installing builds nothing: who installs says before what to build (scripts/package).
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tessera)
set(header_dir ${CMAKE_INSTALL_INCLUDEDIR}/tessera)
# What is installed finds its library wherever the prefix is.
set_target_properties(tessera conformance_test PROPERTIES
  INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

target_include_directories(libtessera INTERFACE $<INSTALL_INTERFACE:${header_dir}>)
target_compile_features(libtessera INTERFACE cxx_std_20)
install(TARGETS libtessera EXPORT Tessera
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(TARGETS tessera RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(FILES ${CMAKE_BINARY_DIR}/manual/tessera.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
        COMPONENT runtime)
install(FILES ${CMAKE_BINARY_DIR}/manual/tessera DESTINATION
        ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT runtime)
install(FILES LICENSE RENAME copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tessera
        COMPONENT runtime)

install(TARGETS conformance EXPORT Tessera
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
set_target_properties(conformance PROPERTIES OUTPUT_NAME tessera_conformance)
install(TARGETS conformance_test RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT dev)
install(DIRECTORY src/ tests/conformance tests/support DESTINATION ${header_dir} COMPONENT dev
        FILES_MATCHING PATTERN "*.hpp" REGEX "/([a-z_]*testing|([a-z]+_)?test_[a-z]*)\\.hpp$" EXCLUDE)
install(FILES ${CMAKE_BINARY_DIR}/generated/base/version.hpp DESTINATION ${header_dir}/base
        COMPONENT dev)
install(DIRECTORY examples/own-method DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tessera/examples
        COMPONENT dev)

install(EXPORT Tessera NAMESPACE Tessera:: FILE TesseraTargets.cmake DESTINATION ${package_dir}
        COMPONENT dev)
configure_package_config_file(cmake/TesseraConfig.cmake.in ${CMAKE_BINARY_DIR}/TesseraConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change anything: a plugin asks for 0.2 and gets 0.2.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TesseraConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/TesseraConfig.cmake ${CMAKE_BINARY_DIR}/TesseraConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT dev)

# Two Debian packages by `cpack -G DEB` (scripts/package).
set(CPACK_PACKAGE_NAME tessera)
set(CPACK_PACKAGE_VENDOR "The Tessera developers")
set(CPACK_PACKAGE_CONTACT "The Tessera developers <tessera@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Personalized federated learning, simulated on one machine")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME tessera)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME tessera-dev)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
"Trains a model for every client of a federation by published methods,
compares them, and reports what each client got.")
set(CPACK_COMPONENT_DEV_DESCRIPTION
"Headers, CMake package and conformance suite, for methods outside Tessera's
source tree that `tessera --plugin` loads.")
# Libraries by what the files link; of libtorch that is its runtime package alone. What the packages
# recommend is not needed: install with --no-install-recommends.
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "dataset-fashion-mnist, bash-completion")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "tessera (= ${PROJECT_VERSION}), libtorch-dev, libopenblas-dev, \
libfmt-dev, libabsl-dev, nlohmann-json3-dev, libgtest-dev")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "cmake, g++")
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
include(CPack)
