package kernels_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// asmFunction is a function of a generated .s file.
type asmFunction struct {
	file, name string
	code       []byte
	comments   []string
}

var directive = regexp.MustCompile(`^(LONG|WORD|BYTE) \$0x([0-9a-f]+)$`)

// generatedFunctions reads all generated .s files of an architecture.
func generatedFunctions(t *testing.T, goarch string) []asmFunction {
	t.Helper()
	files, err := filepath.Glob("*_" + goarch + ".s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly for %s: %v", goarch, err)
	}
	var list []asmFunction
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		scan := bufio.NewScanner(f)
		for scan.Scan() {
			l := strings.TrimSpace(scan.Text())
			if rest, ok := strings.CutPrefix(l, "TEXT ·"); ok {
				name, _, _ := strings.Cut(rest, "(")
				list = append(list, asmFunction{file: file, name: name})
				continue
			}
			code, comment, ok := strings.Cut(l, " // ")
			if !ok || len(list) == 0 || !directive.MatchString(strings.Split(code, "; ")[0]) {
				continue
			}
			f := &list[len(list)-1]
			for d := range strings.SplitSeq(code, "; ") {
				m := directive.FindStringSubmatch(d)
				if m == nil {
					t.Fatalf("%s: %s: cannot read %q", file, f.name, d)
				}
				v, err := strconv.ParseUint(m[2], 16, 32)
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case m[1] == "LONG" || goarch == "arm64":
					f.code = binary.LittleEndian.AppendUint32(f.code, uint32(v))
				case m[1] == "WORD":
					f.code = binary.LittleEndian.AppendUint16(f.code, uint16(v))
				default:
					f.code = append(f.code, byte(v))
				}
			}
			f.comments = append(f.comments, comment)
		}
	}
	return list
}

// Every instruction is what its comment says.
func TestEncodings(t *testing.T) {
	objdump, objcopy := tool(t, "llvm-objdump-19"), tool(t, "llvm-objcopy-19")
	for goarch, format := range map[string][2]string{
		"amd64": {"elf64-x86-64", " #"},
		"arm64": {"elf64-littleaarch64", " //"},
	} {
		// All functions in one piece, since starting the tools takes longer than their work.
		functions := generatedFunctions(t, goarch)
		var code []byte
		for _, f := range functions {
			code = append(code, f.code...)
		}
		in, object := filepath.Join(t.TempDir(), "code"), filepath.Join(t.TempDir(), "code.o")
		if err := os.WriteFile(in, code, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(objcopy, "-I", "binary", "-O", format[0], "--rename-section=.data=.text,code", "--strip-all", in, object).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out, err := exec.Command(objdump, "-d", "--mattr=+all", "--no-show-raw-insn", "--no-leading-addr", object).Output()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for l := range strings.SplitSeq(string(out), "\n") {
			l, _, _ = strings.Cut(strings.ReplaceAll(l, "\t", " "), format[1])
			if l = strings.Join(strings.Fields(l), " "); l != "" && !strings.HasSuffix(l, ":") && !strings.Contains(l, "file format") {
				got = append(got, l)
			}
		}
		start := 0 // of a function, in bytes
		for _, f := range functions {
			if len(got) < len(f.comments) {
				t.Fatalf("%s: %s has %d instructions, %d comments", f.file, f.name, len(got), len(f.comments))
			}
			for i, want := range f.comments {
				if plain(got[i], start) != plain(want, 0) {
					t.Fatalf("%s: instruction %d of %s is %q, the comment says %q", f.file, i, f.name, got[i], want)
				}
			}
			got = got[len(f.comments):]
			start += len(f.code)
		}
		if len(got) != 0 {
			t.Errorf("%s: %d instructions without comments", goarch, len(got))
		}
	}
}

var symbol = regexp.MustCompile(`(0x[0-9a-f]+) <[^>]*>`)

// plain makes jump targets relative to the start of the function, and drops their names, which the bare code does not have.
func plain(instruction string, start int) string {
	return symbol.ReplaceAllStringFunc(instruction, func(s string) string {
		target, _, _ := strings.Cut(s, " ")
		v, err := strconv.ParseInt(target, 0, 64)
		if err != nil {
			return s
		}
		return fmt.Sprintf("%#x", v-int64(start))
	})
}

// tool returns the path of a program. Without it the test is skipped, unless FORGE_REQUIRE_TOOLS=1 says that this
// is a failure.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("FORGE_REQUIRE_TOOLS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return path
}

// foreign matches what a function of the instruction set its name ends with must not contain. The
// registers and masks of AVX-512 are enough: its other instructions need them in our code.
var foreign = map[string]*regexp.Regexp{
	"AVX2":       regexp.MustCompile(`zmm|%k[0-7]|[xy]mm(1[6-9]|2[0-9]|3[01])|^vpternlog|^vp?dp`),
	"AVX512":     regexp.MustCompile(`^vp?dp|%tmm`),
	"AVX512VNNI": regexp.MustCompile(`^vdpbf|%tmm`),
	"NEON":       regexp.MustCompile(`^[su]dot|^[su]mmla|^usdot|^bf|\.[48]h, .*fm|\bz[0-9]|\bp[0-9]`),
	"I8MM":       regexp.MustCompile(`^bf|\.[48]h, .*fm|\bz[0-9]|\bp[0-9]`),
	"DOTPROD":    regexp.MustCompile(`^[su]mmla|^usdot|^bf|\.[48]h, .*fm|\bz[0-9]|\bp[0-9]`),
}

// fused matches instructions that round a product and a sum only once.
var fused = regexp.MustCompile(`^vfn?m|^f(n?m(add|sub)|ml[as])`)

// The end of a function's name is a claim about the instruction set it needs. None fuses products and sums, but those whose
// products are exact.
func TestInstructionSets(t *testing.T) {
	for _, goarch := range []string{"amd64", "arm64"} {
		for _, f := range generatedFunctions(t, goarch) {
			set := instructionSet(f.name)
			if set == "" {
				t.Errorf("%s: the name of %s ends with no instruction set", f.file, f.name)
				continue
			}
			for _, c := range f.comments {
				if foreign[set].MatchString(c) || fused.MatchString(c) && f.name != "dotF16"+set && f.name != "dotPairF16"+set {
					t.Errorf("%s: %s has %q", f.file, f.name, c)
				}
			}
		}
	}
}

// instructionSet is the longest known one that the name ends with.
func instructionSet(name string) string {
	for set := range foreign {
		if strings.HasSuffix(name, set) {
			return set
		}
	}
	return ""
}
