// --copy-binary: this program as bytes for a host that lacks it.
//
// A program that needs the libraries of its system is one file. That of the relocatable archive is
// a tree of files (launcher, loader, libraries), sent as a tar stream: the host needs a shell and
// tar. Both are stored in ~/.cache/reigen there under a name made of their checksum.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "base/process/own_program.h"

namespace reigen {

class ProgramCopy {
 public:
  // Throws DataError if a file of the program cannot be read.
  explicit ProgramCopy(const OwnProgram& program = own_program());

  // Of the copy on a host, as a word of its shell.
  std::string path() const;
  // A shell command that stores its standard input on the host, unless the copy is there already.
  std::string receive() const;

  class Stream {
   public:
    explicit Stream(const ProgramCopy& copy) : copy_(copy) {}
    // The next bytes to send; empty at the end.
    std::string next();

   private:
    const ProgramCopy& copy_;
    size_t at_ = 0;  // the file that is open or comes next
    std::ifstream file_;
    bool ended_ = false;
  };

 private:
  struct Part {
    std::string file;
    std::string name;  // in the tree; empty for a program that is one file
    size_t size = 0;
  };

  bool is_tree() const { return !parts_.front().name.empty(); }

  std::vector<Part> parts_;  // sorted by name
  std::string name_;
};

}  // namespace reigen
