def tables_as_markdown(s): return ""
