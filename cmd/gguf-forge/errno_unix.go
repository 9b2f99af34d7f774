//go:build !windows

package main

import "syscall"

// The errors of the system that mean no disk or memory is left, and that nobody reads a pipe any more.
var (
	exhausted  = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.ENOMEM}
	pipeClosed = []error{syscall.EPIPE}
)
