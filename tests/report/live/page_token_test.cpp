#include "report/live/page_token.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file/secret_file.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

TEST(PageToken, ComesFromOptionFileOrEnvironmentAndIsRandomOtherwise) {
  const TempDir dir;
  const std::string file = dir.path() + "/token";
  write_secret_file(file, "from a file\n");
  EXPECT_EQ(given_page_token({}), "");
  EXPECT_EQ(page_token({}).size(), 32u);
  EXPECT_NE(page_token({}), page_token({}));
  setenv(kPageTokenVariable, "from the environment", 1);
  EXPECT_EQ(page_token({}), "from the environment");
  EXPECT_EQ(page_token({.token = "given"}), "given");
  EXPECT_EQ(page_token({.token_file = file}), "from a file");
  unsetenv(kPageTokenVariable);
  EXPECT_THROW(page_token({.token = "given", .token_file = file}), ConfigError);
  EXPECT_THROW(page_token({.token = std::string(kMostSecretBytes + 1, 'a')}), ConfigError);
}

}  // namespace
}  // namespace reigen
