// The one way to open the files that Reigen writes under names of its own: locks, logs, partial
// output; and the safe way to open a file of a directory from elsewhere for reading.
//
// Another user may have prepared such a name (a downloaded run, a shared folder): a symbolic link
// to a file of the user, a FIFO on which open() waits, a device. For writing only a regular file is
// opened and a link is never followed; no open ever waits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace reigen {

// `flags` are those of open(2), close-on-exec included. Throws IoError that names the path and what
// is in the way.
int open_own_file(const std::string& path, int flags);

// The error of a failed write, with a remedy where there is one.
[[noreturn]] void throw_write_error(const std::string& path, int error_number);

// Shorten a log to `bytes`; throw IoError. replace_end_of_own_file writes `end` over the removed
// part, so that a process killed meanwhile leaves either the old end or the new one; it returns
// false if the disk has no room for `end`.
void truncate_own_file(const std::string& path, uint64_t bytes);
bool replace_end_of_own_file(const std::string& path, uint64_t bytes, std::string_view end);

// Opens or creates a lock file without locking it. A file that is there must be empty or hold what
// `is_ours` accepts, else ConfigError: a user's file of that name is never overwritten.
int open_lock_file(const std::string& path, const std::function<bool(std::string_view)>& is_ours);

// The first bytes of an open lock file: who holds it.
std::string lock_text(int fd);

// Locks it for this process; false when a different process holds it, or when `path` no longer
// names the open file because its holder has just removed it.
bool take_lock(int fd, const std::string& path);

// A regular file, by any number of links; throws DataError for a missing file, a FIFO or a device.
int open_for_reading(const std::string& path);

// The same for a file of a run, which Reigen wrote under a name of its own: a link is an error,
// too. A run from elsewhere could otherwise show any file of the user in a report or a page.
int open_own_for_reading(const std::string& path);

}  // namespace reigen
