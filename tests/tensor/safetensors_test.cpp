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

std::string with_header(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}

SafeTensorsHeader parsed(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "f");
}

TEST(SafeTensors, RefuseHeadersOfTheWrongForm) {
  const std::string good = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  EXPECT_EQ(parsed(with_header("{\"t\":{" + good + "}}", "1234")).tensors.size(), 1u);
  for (const std::string& header : std::vector<std::string>{
           "[]",
           "3",
           "{",
           "{}}",
           "{\"t\":3}",
           "{\"t\":[]}",
           "{\"t\":{}}",
           "{\"t\":{" + good + "},\"t\":{" + good + "}}",
           "{\"t\":{" + good + ",\"shape\":[1]}}",
           "{\"t\":{" + good + ",\"more\":{}}}",
           R"({"t":{"dtype":"F32","data_offsets":[0,4]}})",
           R"({"t":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})",
           R"({"t":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})",
           R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})",
           R"({"t":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})",
           R"({"t":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})",
           R"({"__metadata__":{"a":1}})",
           R"({"__metadata__":{"a":"1","a":"1"}})",
       }) {
    EXPECT_THROW(parsed(with_header(header, "1234")), CheckpointError) << header;
  }
}

// A tree of such a header, whose objects compare each new key with all before it, took minutes.
// Otherwise a file of kilobytes could stand for a model of gigabytes.
TEST(SafeTensors, RefuseTensorsThatOverlap) {
  const auto header_of = [](const char* second) {
    return with_header(
        std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":)") +
            R"({"dtype":"F32","shape":[2],"data_offsets":)" + second + "}}",
        std::string(16, '\0'));
  };
  EXPECT_EQ(parsed(header_of("[8,16]")).tensors.size(), 2u);
  EXPECT_THROW(parsed(header_of("[0,8]")), CheckpointError);
  EXPECT_THROW(parsed(header_of("[4,12]")), CheckpointError);
}

TEST(SafeTensors, ReadAHundredThousandNamesAndRefuseAMillion) {
  auto header_of = [](int names) {
    std::string header = "{";
    for (int i = 0; i < names; ++i) {
      header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
                R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
    }
    return with_header(header + "}", "");
  };
  EXPECT_EQ(parsed(header_of(100'000)).tensors.size(), 100'000u);
  EXPECT_THROW(parsed(header_of(1'000'001)), CheckpointError);
}

TEST(SafeTensors, AFileThatIsMissingOrNoFileIsABadCheckpoint) {
  TempDir dir;
  EXPECT_THROW(SafeTensorsFile(dir.path("gone")), CheckpointError);
  EXPECT_THROW(SafeTensorsFile(dir.path()), CheckpointError);
}

}  // namespace
}  // namespace reigen
