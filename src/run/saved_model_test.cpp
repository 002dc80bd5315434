#include "run/saved_model.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(ModelFile, NamesGoThereAndBack) {
  for (const std::string name : {"7", "ward 7+", "Köln", "100%", "a/b\\c", "%41", "x.safetensors",
                                 "\"quoted\", twice", "-", "."})
    EXPECT_EQ(client_of_file(model_file(name)), name);
  EXPECT_EQ(client_of_file("client-ward%207%2B.safetensors"), "ward 7+");
}

TEST(ModelFile, OtherNamesAreOfNobody) {
  for (const std::string file :
       {"global.safetensors", "client-a.npz", "clients-a.safetensors", "client-%zz.safetensors",
        "client-%4.safetensors", "client-.safetensors", "client-%.safetensors",
        "client-%41.safetensors", "client-%2b.safetensors", "client-a b.safetensors",
        "client-%+1.safetensors"})
    EXPECT_EQ(client_of_file(file), std::nullopt) << file;
}

}  // namespace
}  // namespace tessera
