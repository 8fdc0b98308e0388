// Places of a second copy.
#include "config/copy_target.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

TEST(CopyTarget, IsADirectoryAHostOrACommand) {
  const CopyTarget directory = parse_copy_target("/mnt/a:b/copy");
  EXPECT_EQ(directory.kind, CopyTarget::Kind::kDirectory);
  EXPECT_EQ(directory.place, "/mnt/a:b/copy");
  const CopyTarget host = parse_copy_target("vm2:copies/run");
  EXPECT_EQ(host.kind, CopyTarget::Kind::kHost);
  EXPECT_EQ(host.host, "vm2");
  EXPECT_EQ(host.place, "copies/run");
  const CopyTarget command = parse_copy_target("command:./copy.sh --bucket b");
  EXPECT_EQ(command.kind, CopyTarget::Kind::kCommand);
  EXPECT_EQ(command.place, "./copy.sh --bucket b");
}

TEST(CopyTarget, RefusesWhatCouldMeanAnythingElse) {
  // A relative directory would be a different one for `reigen restore` in a different folder; a
  // name that begins with a dash would be an option of ssh.
  for (const char* text :
       {"copy", "./copy", "copy/a:b", ":path", "vm2:", "-oProxy=x:/p", "command:"}) {
    EXPECT_THROW(parse_copy_target(text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace reigen
