package tokenizer

// A scanner cuts text into pieces, as the regular expression of a vocabulary would, in one pass and without a regular
// expression engine. It sees only the stretch of text it is given: the look-ahead of the expressions ends where a special
// token begins.
type scanner struct {
	find    func(s *scanner, text []byte, i int) int // the end of the piece that begins at i
	classes *classTable
	ascii   [256]flags // of bytes below 0x80
	flags   [classes]flags
	digits  int  // numbers to a piece
	slash   bool // punctuation may end in slashes as well as line breaks
	tails   bool // contractions belong to the word before them
	through bool // white space up to the end is one piece, line breaks or not
	far     bool // the end of a piece may depend on more than a few characters behind it
	lines   bool // without an expression: runs of line feeds are pieces
	apart   bool // and each space begins one
	crossed *bigrams
}

// flags are the roles of a character in an expression.
type flags uint8

const (
	inWord   flags = 1 << iota // may be in a word
	inNumber                   // \p{N}
	isSpace                    // \s
	isBreak                    // CR or LF, which are also isSpace
	isPunct                    // none of these
	isUpper                    // may be in the first part of a word
	isLower                    // may be in the second
	isLetter                   // \p{L}
)

// The expressions that have a scanner, as vocabularies write them. The last three are descriptions: of two stages, and of
// what llama.cpp makes of letters with and without case.
const (
	gpt2Expression = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

	contractions    = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	llama3          = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2           = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen35          = contractions + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	bailing         = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`
	lfm25           = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s`
	cl100k          = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s`
	o200kFirst      = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
	o200kSecond     = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
	o200k           = o200kFirst + contractions + `?|` + o200kSecond + contractions + `?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekken          = o200kFirst + `|` + o200kSecond + `|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	digitsThenGPT2  = `\p{N}, then ` + gpt2Expression
	approximateCase = ` with every letter but a-z as upper and but A-Z as lower case`
	approximateO200 = o200k + approximateCase
	approximateTekk = tekken + approximateCase
)

// newScanner returns the scanner of an expression, nil if there is none.
func newScanner(expression string, t *classTable) *scanner {
	s := &scanner{classes: t, digits: 1, find: (*scanner).word}
	s.flags = [classes]flags{
		other: isPunct, mark: isPunct, number: inNumber, space: isSpace,
		upper: inWord, lower: inWord, title: inWord, modifier: inWord, letter: inWord,
	}
	switch expression {
	case gpt2Expression:
		s.find = (*scanner).gpt2
	case digitsThenGPT2:
		s.find = (*scanner).gpt2Digits
	case llama3, lfm25:
		s.digits = 3
	case cl100k:
		s.digits, s.through = 3, true
	case qwen2, bailing:
	case qwen35:
		s.flags[mark] = inWord
	case o200k, tekken:
		s.find = (*scanner).cased
		for c, f := range [classes]flags{upper: isUpper, title: isUpper, lower: isLower, modifier: isUpper | isLower, letter: isUpper | isLower, mark: isUpper | isLower | isPunct} {
			if f != 0 {
				s.flags[c] = f
			}
			if f != 0 && class(c) != mark {
				s.flags[c] |= isLetter
			}
		}
	case approximateO200, approximateTekk:
		s.find = (*scanner).cased
		for _, c := range []class{upper, lower, title, modifier, letter} {
			s.flags[c] = isUpper | isLower | isLetter
		}
	default:
		return nil
	}
	switch expression {
	case o200k, approximateO200:
		s.digits, s.slash, s.tails, s.far = 3, true, true, true
	case tekken, approximateTekk:
		s.slash, s.far = true, true
	}
	s.fillASCII()
	if expression == approximateO200 || expression == approximateTekk {
		for b := 'a'; b <= 'z'; b++ {
			s.ascii[b] = isLower | isLetter
			s.ascii[b-'a'+'A'] = isUpper | isLetter
		}
	}
	return s
}

func (s *scanner) fillASCII() {
	for b := range rune(0x80) {
		s.ascii[b] = s.flags[s.classes.of(b)]
	}
	s.ascii['\r'] |= isBreak
	s.ascii['\n'] |= isBreak
}

// at returns the flags and the length of the character at i.
func (s *scanner) at(text []byte, i int) (flags, int) {
	if b := text[i]; b < 0x80 {
		return s.ascii[b], 1
	}
	r, n := decode(text, i)
	return s.flags[s.classes.of(r)], n
}

// run returns the end of the longest run of characters with one of the flags f.
func (s *scanner) run(text []byte, i int, f flags) int {
	for i < len(text) {
		if b := text[i]; b < 0x80 {
			if s.ascii[b]&f == 0 {
				return i
			}
			i++
			continue
		}
		r, n := decode(text, i)
		if s.flags[s.classes.of(r)]&f == 0 {
			return i
		}
		i += n
	}
	return i
}

// contraction returns the length of an English contraction at i, 0 if there is none.
func contraction(text []byte, i int, fold byte) int {
	if text[i] != '\'' || i+1 >= len(text) {
		return 0
	}
	switch a := text[i+1] | fold; a {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v', 'l':
		if i+2 >= len(text) {
			return 0
		}
		if b := text[i+2] | fold; a == 'l' && b == 'l' || a != 'l' && b == 'e' {
			return 3
		}
	}
	return 0
}

// lowerCase turns ASCII letters to lower case when it is or-ed in; what it makes of other characters is no letter of a
// contraction, but for those of the two columns of letters.
const lowerCase = 0x20

// word is the scanner of the families after GPT-4's first expression: Llama 3, Qwen, Bailing, LFM2, DBRX.
func (s *scanner) word(text []byte, i int) int {
	f, n := s.at(text, i)
	if f&inWord != 0 {
		return s.run(text, i+n, inWord)
	}
	if text[i] == '\'' {
		if n := contraction(text, i, lowerCase); n > 0 {
			return i + n
		}
	}
	if f&inNumber != 0 {
		return s.numbers(text, i+n)
	}
	next, m := flags(0), 0
	if i+n < len(text) {
		next, m = s.at(text, i+n)
	}
	if f&isBreak == 0 && next&inWord != 0 {
		return s.run(text, i+n+m, inWord)
	}
	return s.rest(text, i, f, n, next, m)
}

// numbers ends a piece whose first character is a number and ends at i.
func (s *scanner) numbers(text []byte, i int) int {
	for k := 1; k < s.digits && i < len(text); k++ {
		f, n := s.at(text, i)
		if f&inNumber == 0 {
			break
		}
		i += n
	}
	return i
}

// rest scans punctuation and white space: the character at i has flags f and length n, the next one next and m.
func (s *scanner) rest(text []byte, i int, f flags, n int, next flags, m int) int {
	if f&isPunct != 0 {
		return s.punctuation(text, i+n)
	}
	if text[i] == ' ' && next&isPunct != 0 {
		return s.punctuation(text, i+n+m)
	}
	return s.spaces(text, i)
}

func (s *scanner) punctuation(text []byte, i int) int {
	i = s.run(text, i, isPunct)
	for i < len(text) && (text[i] == '\r' || text[i] == '\n' || s.slash && text[i] == '/') {
		i++
	}
	return i
}

// spaces ends a run of white space: behind its last line break, else at the end of the text, else before its last
// character, which belongs to the next piece.
func (s *scanner) spaces(text []byte, i int) int {
	end, last, lineEnd := i, i, 0
	for end < len(text) {
		f, n := s.at(text, end)
		if f&isSpace == 0 {
			break
		}
		last = end
		end += n
		if f&isBreak != 0 {
			lineEnd = end
		}
	}
	switch {
	case s.through && end == len(text):
		return end
	case lineEnd > 0:
		return lineEnd
	case end == len(text) || last == i:
		return end
	}
	return last
}

// gpt2 is the scanner of GPT-2: contractions in lower case only, one space before anything, no rule for line breaks.
func (s *scanner) gpt2(text []byte, i int) int { return s.gpt2Until(text, i, 0) }

// gpt2Digits is the same after a first expression that cuts out every number. The text ends before each.
func (s *scanner) gpt2Digits(text []byte, i int) int {
	if f, n := s.at(text, i); f&inNumber != 0 {
		return i + n
	}
	return s.gpt2Until(text, i, inNumber)
}

// gpt2Until scans a text that also ends before a character with the flags stop.
func (s *scanner) gpt2Until(text []byte, i int, stop flags) int {
	if text[i] == '\'' {
		if n := contraction(text, i, 0); n > 0 {
			return i + n
		}
	}
	j := i
	if text[i] == ' ' {
		j++
	}
	if j < len(text) {
		if f, n := s.at(text, j); f&(isSpace|stop) == 0 {
			return s.run(text, j+n, f)
		}
	}
	end, last := i, i
	for end < len(text) {
		f, n := s.at(text, end)
		if f&stop != 0 {
			return end
		}
		if f&isSpace == 0 {
			if last == i {
				return end
			}
			return last
		}
		last = end
		end += n
	}
	return end
}

// cased is the scanner of GPT-4o's expression: a word is upper-case letters, then lower-case ones. Letters without case
// are both.
func (s *scanner) cased(text []byte, i int) int {
	f, n := s.at(text, i)
	next, m := flags(0), 0
	if i+n < len(text) {
		next, m = s.at(text, i+n)
	}
	const both = isUpper | isLower
	prefixed := f&(isLetter|inNumber|isBreak) == 0 && next&both != 0
	if prefixed {
		if end := s.upperLower(text, i+n); end > 0 {
			return s.tail(text, end)
		}
	}
	if f&both != 0 {
		if end := s.upperLower(text, i); end > 0 {
			return s.tail(text, end)
		}
	}
	// All letters are upper case, as the first form of a word found no lower-case one.
	if prefixed {
		return s.tail(text, s.run(text, i+n, isUpper))
	}
	if f&both != 0 {
		return s.tail(text, s.run(text, i, isUpper))
	}
	if f&inNumber != 0 {
		return s.numbers(text, i+n)
	}
	return s.rest(text, i, f, n, next, m)
}

// upperLower matches any upper-case letters and at least one lower-case one. It returns 0 if it can't.
func (s *scanner) upperLower(text []byte, i int) int {
	end := 0
	for i < len(text) {
		f, n := s.at(text, i)
		if f&isUpper == 0 {
			if f&isLower != 0 {
				return s.run(text, i+n, isLower)
			}
			break
		}
		i += n
		if f&isLower != 0 {
			end = i
		}
	}
	return end
}

// tail adds a contraction to a word.
func (s *scanner) tail(text []byte, end int) int {
	if s.tails && end < len(text) {
		end += contraction(text, end, lowerCase)
	}
	return end
}
