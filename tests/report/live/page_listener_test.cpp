#include "report/live/page_listener.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

TEST(PageListener, APortInUseIsAnErrorOnlyIfItWasAskedFor) {
  const Socket first = listen_for_page("127.0.0.1", 0);
  const Socket second = listen_for_page("127.0.0.1", 0);
  EXPECT_NE(port_of(first), port_of(second));
  EXPECT_THROW(listen_for_page("127.0.0.1", port_of(first)), IoError);
}

TEST(PageListener, AnAddressOfADifferentHostIsAnError) {
  EXPECT_THROW(listen_for_page("192.0.2.1", 0), IoError);  // reserved for documents
  EXPECT_THROW(listen_for_page("no such address", 0), IoError);
}

}  // namespace
}  // namespace reigen
