package remote

// Settings is what a client read from its environment.
type Settings struct {
	Endpoint, Token, Cache string
	Offline                bool
}

// SettingsOf shows them to tests.
func SettingsOf(c *Client) Settings { return Settings{c.Endpoint(), c.token, c.cacheDir, c.offline} }

var (
	ParseIndexForTest = parseIndex
	Demanded          = demanded
	Backoff           = backoff
	RefreshTime       = refreshTime
	LongestDemand     = longestDemand
)

// ParseSafetensors shows the header parser to tests: names in data order.
func ParseSafetensors(head []byte, dataSize int64) ([]string, error) {
	list, err := parseSafetensors(head, dataSize)
	var names []string
	for _, t := range list {
		names = append(names, t.name)
	}
	return names, err
}

// MaySeeToken shows the decision about the token to tests.
func MaySeeToken(c *Client, address string) bool {
	u, err := c.endpoint.Parse(address)
	return err == nil && c.maySeeToken(u)
}
