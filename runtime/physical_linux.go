package runtime

import "golang.org/x/sys/unix"

// physicalMemory returns the bytes of memory of the machine, 0 if unknown.
func physicalMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit))
}
