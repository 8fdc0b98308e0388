#include "dist/members/member_json.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

TEST(MemberJson, KeepsAll64BitsOfAWorker) {
  for (const uint64_t process : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    const WorkerId worker{7, process};
    EXPECT_EQ(worker_in(Json::parse(one_line(json_of(worker)))), worker);
  }
}

TEST(MemberJson, AWorkerThatIsNoneIsNothing) {
  for (const char* text :
       {R"(3)", R"({})", R"({"number": 1})", R"({"number": -1, "process": "a"})",
        R"({"number": 1, "process": 5})", R"({"number": 1, "process": ""})",
        R"({"number": 1, "process": "0123456789abcdef0"})", R"({"number": 1, "process": "-1"})",
        R"({"number": 9999999999, "process": "1"})"}) {
    EXPECT_EQ(worker_in(Json::parse(text)), std::nullopt) << text;
  }
}

TEST(MemberJson, ProcessesOfOneNumberDiffer) { EXPECT_NE(new_worker(2), new_worker(2)); }

}  // namespace
}  // namespace reigen
