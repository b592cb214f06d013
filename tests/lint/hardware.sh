#!/usr/bin/env bash
# Hardware is data with unit and source: every row of suite/systems/gpus/*.csv, every suite/systems/*.yaml.
source "$(dirname "$0")/lint.sh"

lint_check() {
  local gpus systems
  mapfile -t gpus < <(lint_files '^suite/systems/gpus/[^/]*\.csv$')
  mapfile -t systems < <(lint_files '^suite/systems/[^/]*\.yaml$')
  [ ${#gpus[@]} = 0 ] || awk '
    function cells(line,   n, at, value, quoted, c) { # RFC 4180, one record a line
      split("", cell); n = 1; quoted = 0; value = ""
      for (at = 1; at <= length(line); at++) {
        c = substr(line, at, 1)
        if (c == "\"") quoted = !quoted
        else if (c == "," && !quoted) { cell[n++] = value; value = "" }
        else value = value c
      }
      cell[n] = value
      return n
    }
    FNR == 1 { if ($0 != "key,value,unit,source,note") print FILENAME ":1: header is not key,value,unit,source,note: " $0; split("", seen); next }
    {
      n = cells($0); at = FILENAME ":" FNR ": "
      if (n != 5) { print at n " cells instead of 5: " $0; next }
      for (i = 1; i <= 4; i++) if (cell[i] ~ /^[ \t]*$/) print at "no " (i == 1 ? "key" : i == 2 ? "value" : i == 3 ? "unit" : "source") ": " $0
      if (cell[1] in seen) print at "second row of " cell[1]
      seen[cell[1]] = 1
      if (cell[2] !~ /^-?[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?$/ && cell[3] != "enum") print at "neither a number nor of unit enum: " cell[2]
    }' "${gpus[@]}"
  [ ${#systems[@]} = 0 ] || awk '
    function finish() {
      if (file == "") return
      if (!("schema" in key)) print file ":1: no schema"
      if (!("source" in key)) print file ":1: no source"
      base = file; sub(/.*\//, "", base); sub(/\.yaml$/, "", base)
      if (key["name"] != base) print file ":1: name is not the name of the file: " key["name"]
      if ("gpu" in key && (getline line < ("suite/systems/" key["gpu"])) < 0) print file ":1: no such file: " key["gpu"]
    }
    FNR == 1 { finish(); file = FILENAME; split("", key) }
    /^[a-z_]+:/ {
      name = $1; sub(/:$/, "", name); value = $0; sub(/^[^:]*:[ \t]*/, "", value); key[name] = value
      if (value == "" || value == "\"\"") print FILENAME ":" FNR ": empty: " name
      # a bare number must carry its unit in its name, or count something
      if (value ~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/ && name !~ /(_(s|us|bytes|gib|flops|bytes_per_s|w)|^nodes|^gpus_per_node|^ranks.*|^switch.*|^rails.*)$/)
        print FILENAME ":" FNR ": no unit in the name: " name
    }
    END { finish() }' "${systems[@]}"
}

lint_self_test() {
  plant suite/systems/gpus/a.csv 'key,value,unit,source,note' 'hbm_bytes,8e9,byte,"sheet, page 3",' 'link,pcie6,enum,sheet,x'
  plant suite/systems/a.yaml '# A' 'schema: moemark/system/1' 'name: a' 'gpu: gpus/a.csv' 'nodes: 2' 'memory_budget_gib: 7.5' 'source: "sheet"'
  expect_clean
  plant suite/systems/gpus/b.csv 'key,value,unit,source,note' 'x,1,byte,,' 'y,1,,sheet,' 'x,2,byte,sheet,' 'z,fast,byte,sheet,' 'w,1,byte,sheet'
  plant suite/systems/b.yaml 'schema: moemark/system/1' 'name: c' 'gpu: gpus/none.csv' 'memory_budget: 7'
  expect_found suite/systems/gpus/b.csv:2: suite/systems/gpus/b.csv:3: suite/systems/gpus/b.csv:4: suite/systems/gpus/b.csv:5: \
    suite/systems/gpus/b.csv:6: 'suite/systems/b.yaml:1: no source' 'suite/systems/b.yaml:1: name' 'suite/systems/b.yaml:1: no such' suite/systems/b.yaml:4:
}

lint_main "$@"
