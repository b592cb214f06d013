# Prints C sources as "file:line:code": comments become a blank; the insides of texts, of characters and of quoted
# includes go.
FNR == 1 { comment = 0 }
{
  line = $0
  code = ""
  while (line != "") {
    if (comment) {
      at = index(line, "*/")
      if (at == 0) break
      line = substr(line, at + 2)
      comment = 0
      code = code " "
      continue
    }
    if (!match(line, /\/\*|\/\/|"|'/)) {
      code = code line
      break
    }
    start = substr(line, RSTART, 2)
    code = code substr(line, 1, RSTART - 1)
    line = substr(line, RSTART)
    if (start == "/*") {
      comment = 1
      line = substr(line, 3)
    } else if (start == "//") {
      break
    } else {
      quote = substr(line, 1, 1)
      line = substr(line, 2)
      while (line != "" && substr(line, 1, 1) != quote) line = substr(line, substr(line, 1, 1) == "\\" ? 3 : 2)
      line = substr(line, 2)
      code = code quote quote
    }
  }
  print FILENAME ":" FNR ":" code
}
