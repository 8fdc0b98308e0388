// safetensors files: values round-trip, and damage is detected.
#include "tensor/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;

void write_sample(const std::string& path) {
  std::vector<float> a = {1, 2, 3, 4, 5, 6};
  std::vector<float> b = {-1};
  FileWriter file(path);
  write_safetensors(file, {{"a", {2, 3}, a}, {"b", {1}, b}}, {{"step", "7"}});
  file.close();
}

TEST(SafeTensors, RoundTrip) {
  TempDir dir;
  write_sample(dir.path("f"));
  SafeTensorsFile file(dir.path("f"));
  EXPECT_THAT(file.find("a").shape, ElementsAre(2, 3));
  EXPECT_THAT(file.find("a").f32(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(file.find("b").f32(), ElementsAre(-1));
  EXPECT_EQ(file.metadata().at("step"), "7");
  EXPECT_THROW(file.find("c"), CheckpointError);
}

TEST(SafeTensors, DetectEveryTruncation) {
  TempDir dir;
  write_sample(dir.path("f"));
  std::string bytes = read_file(dir.path("f"));
  for (size_t size = 1; size < bytes.size(); ++size) {
    write_text(dir.path("cut"), bytes.substr(0, size));
    EXPECT_THROW(SafeTensorsFile(dir.path("cut")), CheckpointError) << size;
  }
}

TEST(SafeTensors, RefuseShapesAndOffsetsThatDoNotFit) {
  TempDir dir;
  for (const char* entry :
       {R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16]})",
        R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})",
        R"({"dtype":"F32","shape":[4],"data_offsets":[8,4]})",
        R"({"dtype":"F32","shape":[4],"data_offsets":[0,17]})",
        R"({"dtype":"X9","shape":[4],"data_offsets":[0,16]})", R"({"dtype":"F32"})"}) {
    std::string header = std::string("{\"t\":") + entry + "}";
    uint64_t size = header.size();
    std::string bytes(reinterpret_cast<const char*>(&size), 8);
    write_text(dir.path("bad"), bytes + header + std::string(16, '\0'));
    EXPECT_THROW(SafeTensorsFile(dir.path("bad")), CheckpointError) << entry;
  }
}

}  // namespace
}  // namespace reigen
