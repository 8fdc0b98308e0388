// Event files, read back byte by byte by an independent reader.
#include "observe/tensorboard/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file/files.h"
#include "base/format.h"
#include "observe/tensorboard/events_in.h"
#include "observe/tensorboard/tf_record.h"
#include "support/full_disk.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

void add_step(EventFile& file, uint64_t step) {
  file.add_scalars(step, 1.7e9 + static_cast<double>(step),
                   {{"train/loss", 0.5 * static_cast<double>(step)}});
}

std::vector<int64_t> steps_of(const std::string& path) {
  std::vector<int64_t> steps;
  for (const ReadEvent& read : events_in(path)) steps.push_back(read.step);
  return steps;
}

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

// Length, its masked checksum, payload, its masked checksum; computed by a different program.
TEST(TfRecord, IsFramedAsTensorFlowDoes) {
  EXPECT_EQ(hex_of(frame_record("abc")), "0300000000000000b099490e6162636e57f121");
}

TEST(EventFile, BeginsWithItsVersionAndHasANameThatTensorBoardReads) {
  TempDir dir;
  EventFile file(dir.path("tensorboard"), 1, 0);
  EXPECT_THAT(fs::path(file.path()).filename().string(),
              testing::MatchesRegex("events\\.out\\.tfevents\\.[0-9]{10}\\.[^/]+\\.[0-9]+\\.1"));
  const std::vector<ReadEvent> events = events_in(file.path());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_GT(events[0].wall_time, 1.7e9);
}

TEST(EventFile, ShowsScalarsAsSimpleValuesAtOnce) {
  TempDir dir;
  EventFile file(dir.path(), 1, 0);
  file.add_scalars(7, 1700000000.25, {{"train/loss", 2.5}, {"train/nll", 0.1}});
  const ReadEvent read = events_in(file.path()).at(1);
  EXPECT_EQ(read.step, 7);
  EXPECT_EQ(read.wall_time, 1700000000.25);
  ASSERT_EQ(read.values.size(), 2u);
  EXPECT_EQ(read.values[0].tag, "train/loss");
  EXPECT_EQ(read.values[0].simple_value, 2.5f);
  EXPECT_FALSE(read.values[0].metadata.has_value());
  EXPECT_EQ(read.values[1].tag, "train/nll");
  EXPECT_EQ(read.values[1].simple_value, 0.1f);
}

TEST(EventFile, ShowsTextAsAStringForTheTextPlugin) {
  TempDir dir;
  EventFile file(dir.path(), 1, 0);
  file.add_text(7, 1700000000.5, "eval/samples", "| größer |\n");
  const ReadEvent read = events_in(file.path()).at(1);
  ASSERT_EQ(read.values.size(), 1u);
  const ReadValue& value = read.values[0];
  EXPECT_EQ(value.tag, "eval/samples");
  EXPECT_FALSE(value.simple_value.has_value());
  ASSERT_TRUE(value.metadata.has_value());
  EXPECT_EQ(value.metadata->plugin_name, "text");
  EXPECT_EQ(value.metadata->data_class, 2u);  // DATA_CLASS_TENSOR
  ASSERT_TRUE(value.tensor.has_value());
  EXPECT_EQ(value.tensor->dtype, 7u);  // DT_STRING
  EXPECT_TRUE(value.tensor->has_shape);
  EXPECT_THAT(value.tensor->strings, ElementsAre("| größer |\n"));
}

// Bytes by TensorBoard's own .proto files, so that writer and reader cannot share a mistake.
TEST(EventFile, HasTensorBoardsFieldNumbersOnTheWire) {
  TempDir dir;
  EventFile file(dir.path(), 2, 8);
  file.add_scalars(7, 2.0, {{"t", 1.0}});
  file.add_text(7, 2.0, "t", "x");
  TfRecordReader reader(file.path());
  std::vector<std::string> payloads(4);
  for (std::string& payload : payloads) {
    ASSERT_EQ(reader.next(payload), TfRecordReader::Next::kRecord);
  }
  EXPECT_EQ(payloads[0].substr(9),
            "\x1A\x0D"
            "brain.Event:2");                                // file_version 3
  EXPECT_EQ(hex_of(payloads[1].substr(9)), "10093a020801");  // step 2, session_log 7, status 1
  const std::string time_and_step =
      "090000000000000040"
      "1007";
  // summary 5, value 1; tag 1, simple_value 2
  EXPECT_EQ(hex_of(payloads[2]), time_and_step +
                                     "2a0a0a08"
                                     "0a0174"
                                     "150000803f");
  // tag 1; tensor 8: dtype 1, tensor_shape 2, string_val 8; metadata 9: plugin_data 1, data_class 4
  EXPECT_EQ(hex_of(payloads[3]), time_and_step +
                                     "2a1a0a18"
                                     "0a0174"
                                     "42070807"
                                     "1200"
                                     "420178"
                                     "4a0a0a060a0474657874"
                                     "2002");
}

// proto3 leaves out zeros and empty strings, but for a oneof's member and a repeated field's
// element.
TEST(EventFile, LeavesOutDefaultValuesAsProto3Does) {
  TempDir dir;
  EventFile file(dir.path(), 1, 0);
  file.add_scalars(0, 0.0, {});
  file.add_scalars(0, 0.0, {{"", 0.0}});
  file.add_text(0, 0.0, "", "");
  TfRecordReader reader(file.path());
  std::vector<std::string> payloads(4);
  for (std::string& payload : payloads) {
    ASSERT_EQ(reader.next(payload), TfRecordReader::Next::kRecord);
  }
  EXPECT_EQ(payloads[1], "");
  EXPECT_EQ(hex_of(payloads[2]), "2a070a051500000000");
  EXPECT_EQ(hex_of(payloads[3]),
            "2a160a14"
            "42060807"
            "1200"
            "4200"
            "4a0a0a060a0474657874"
            "2002");
}

TEST(EventFile, OfALaterAttemptMakesTensorBoardDiscardLaterSteps) {
  TempDir dir;
  EventFile file(dir.path(), 2, 500);
  const std::vector<ReadEvent> events = events_in(file.path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[1].session_status, 1u);  // SessionLog.START
  EXPECT_EQ(events[1].step, 501);
}

TEST(EventFile, ComesAfterAllOlderOnesByName) {
  TempDir dir;
  const std::string later = "events.out.tfevents.4000000000.node.1.1";  // a clock that was ahead
  write_text(dir.path(later), "");
  std::string newest = later;
  for (uint64_t attempt = 2; attempt < 12; ++attempt) {
    const EventFile file(dir.path(), attempt, 0);
    const std::string name = fs::path(file.path()).filename();
    EXPECT_GT(name, newest);
    newest = name;
  }
}

TEST(EventFile, SurvivesAFullDiskWithoutLostOrRepeatedBytes) {
  TempDir dir;
  CaptureStderr();
  std::string path;
  {
    EventFile file(dir.path(), 1, 0);
    path = file.path();
    FullDisk disk(1000);
    for (uint64_t step = 1; step <= 100; ++step) {
      if (step == 80) disk.set(1 << 20);
      add_step(file, step);
    }
  }
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("can be written again"));
  const std::vector<int64_t> steps = steps_of(path);
  ASSERT_EQ(steps.size(), 101u);
  for (int64_t step = 0; step <= 100; ++step) EXPECT_EQ(steps[step], step);
}

TEST(TrimEventFiles, RemovesStepsAfterTheCheckpoint) {
  TempDir dir;
  EventFile first(dir.path(), 1, 0);
  for (uint64_t step = 1; step <= 8; ++step) add_step(first, step);
  first.add_text(8, 1.7e9, "eval/samples", "x");
  EventFile second(dir.path(), 2, 8);
  for (uint64_t step = 9; step <= 12; ++step) add_step(second, step);

  trim_event_files(dir.path(), 10);
  EXPECT_THAT(steps_of(first.path()), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 8));
  EXPECT_THAT(steps_of(second.path()), ElementsAre(0, 9, 9, 10));
  trim_event_files(dir.path(), 8);
  EXPECT_THAT(steps_of(first.path()), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 8));
  EXPECT_THAT(steps_of(second.path()), ElementsAre(0));
  trim_event_files(dir.path(), 3);
  EXPECT_THAT(steps_of(first.path()), ElementsAre(0, 1, 2, 3));
}

TEST(TrimEventFiles, RemovesAnUnfinishedRecord) {
  TempDir dir;
  EventFile file(dir.path(), 1, 0);
  for (uint64_t step = 1; step <= 3; ++step) add_step(file, step);
  const std::string whole = read_file(file.path());
  add_step(file, 4);
  const std::string more = read_file(file.path());
  for (size_t size = whole.size(); size < more.size(); ++size) {
    write_text(file.path(), more.substr(0, size));
    CaptureStderr();
    trim_event_files(dir.path(), 9);
    ASSERT_EQ(GetCapturedStderr(), "") << size;
    ASSERT_EQ(read_file(file.path()), whole) << size;
  }
}

TEST(TrimEventFiles, RemovesDamageWithAWarning) {
  TempDir dir;
  EventFile file(dir.path(), 1, 0);
  add_step(file, 1);
  const std::string whole = read_file(file.path());
  add_step(file, 2);
  const std::string more = read_file(file.path());
  add_step(file, 3);
  const std::string all = read_file(file.path());
  for (size_t at = whole.size(); at < more.size(); ++at) {
    std::string damaged = all;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write_text(file.path(), damaged);
    CaptureStderr();
    trim_event_files(dir.path(), 9);
    ASSERT_THAT(GetCapturedStderr(), HasSubstr(format("damaged after byte {}", whole.size())));
    ASSERT_EQ(read_file(file.path()), whole) << at;
  }
}

TEST(TrimEventFiles, DoesNotFollowLinks) {
  TempDir dir;
  write_text(dir.path("precious"), "not an event");
  std::filesystem::create_directory(dir.path("tb"));
  std::filesystem::create_symlink(dir.path("precious"), dir.path("tb/events.out.tfevents.1.x"));
  trim_event_files(dir.path("tb"), 0);
  EXPECT_EQ(read_file(dir.path("precious")), "not an event");
}

TEST(TrimEventFiles, IgnoresOtherFilesAndAMissingFolder) {
  TempDir dir;
  write_text(dir.path("notes.txt"), "mine");
  trim_event_files(dir.path(), 0);
  trim_event_files(dir.path("nowhere"), 0);
  EXPECT_EQ(read_file(dir.path("notes.txt")), "mine");
}

// A correct checksum only proves that the bytes are those that were written.
TEST(TrimEventFiles, RemovesARecordThatIsNoEventDespiteItsChecksums) {
  TempDir dir;
  EventFile file(dir.path(), 1, 0);
  add_step(file, 1);
  const std::string whole = read_file(file.path());
  write_text(file.path(), whole + frame_record("\x10") + frame_record(""));
  CaptureStderr();
  trim_event_files(dir.path(), 9);
  EXPECT_THAT(GetCapturedStderr(), HasSubstr(format("damaged after byte {}", whole.size())));
  EXPECT_EQ(read_file(file.path()), whole);
}

}  // namespace
}  // namespace reigen
