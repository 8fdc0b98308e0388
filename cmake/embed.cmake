# Writes a C++ source that holds a text file as `extern const std::string_view NAME`, in namespace
# reigen::web: cmake -DINPUT=FILE -DOUTPUT=FILE.cpp -DNAME=NAME -P embed.cmake
file(READ ${INPUT} text)
# The standard guarantees literals of only 65,536 bytes; adjacent literals are joined.
set(pieces "")
string(LENGTH "${text}" left)
set(from 0)
while(from LESS left)
  string(SUBSTRING "${text}" ${from} 15000 piece)
  string(APPEND pieces "R\"reigen-text(${piece})reigen-text\"\n")
  math(EXPR from "${from} + 15000")
endwhile()
file(WRITE ${OUTPUT} "// Generated from ${INPUT}.\n#include <string_view>\n\nnamespace reigen::web {\n"
  "extern const std::string_view ${NAME};\nconst std::string_view ${NAME} =\n${pieces};\n}  // namespace reigen::web\n")
