package main

import "golang.org/x/sys/windows"

// The errors of the system that mean no disk or memory is left, and that nobody reads a pipe any more.
var (
	exhausted = []error{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED,
		windows.ERROR_NOT_ENOUGH_MEMORY, windows.ERROR_OUTOFMEMORY}
	pipeClosed = []error{windows.ERROR_BROKEN_PIPE, windows.ERROR_NO_DATA}
)
