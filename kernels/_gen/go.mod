module gguf-forge/kernels/_gen

go 1.26.0
