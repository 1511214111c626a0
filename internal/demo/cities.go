package demo

import (
	"strings"
	"time"
	_ "time/tzdata" // time zone data, for systems without zone files
)

// A city is a place with known coordinates.
type city struct {
	Name      string  `json:"name" jsonschema:"its name in English"`
	Country   string  `json:"country" jsonschema:"the country it is in"`
	Latitude  float64 `json:"latitude" jsonschema:"degrees north of the equator"`
	Longitude float64 `json:"longitude" jsonschema:"degrees east of Greenwich"`
	Zone      string  `json:"timezone" jsonschema:"its time zone in the IANA database"`
}

// cities are sorted by name.
var cities = []city{
	{"Amsterdam", "Netherlands", 52.37, 4.90, "Europe/Amsterdam"},
	{"Anchorage", "United States", 61.22, -149.90, "America/Anchorage"},
	{"Athens", "Greece", 37.98, 23.73, "Europe/Athens"},
	{"Auckland", "New Zealand", -36.85, 174.76, "Pacific/Auckland"},
	{"Bangkok", "Thailand", 13.76, 100.50, "Asia/Bangkok"},
	{"Beijing", "China", 39.90, 116.41, "Asia/Shanghai"},
	{"Berlin", "Germany", 52.52, 13.41, "Europe/Berlin"},
	{"Bogotá", "Colombia", 4.71, -74.07, "America/Bogota"},
	{"Buenos Aires", "Argentina", -34.60, -58.38, "America/Argentina/Buenos_Aires"},
	{"Cairo", "Egypt", 30.04, 31.24, "Africa/Cairo"},
	{"Cape Town", "South Africa", -33.92, 18.42, "Africa/Johannesburg"},
	{"Chicago", "United States", 41.88, -87.63, "America/Chicago"},
	{"Copenhagen", "Denmark", 55.68, 12.57, "Europe/Copenhagen"},
	{"Dakar", "Senegal", 14.69, -17.45, "Africa/Dakar"},
	{"Delhi", "India", 28.61, 77.21, "Asia/Kolkata"},
	{"Dubai", "United Arab Emirates", 25.20, 55.27, "Asia/Dubai"},
	{"Dublin", "Ireland", 53.35, -6.26, "Europe/Dublin"},
	{"Hanoi", "Vietnam", 21.03, 105.85, "Asia/Ho_Chi_Minh"},
	{"Helsinki", "Finland", 60.17, 24.94, "Europe/Helsinki"},
	{"Honolulu", "United States", 21.31, -157.86, "Pacific/Honolulu"},
	{"Istanbul", "Turkey", 41.01, 28.98, "Europe/Istanbul"},
	{"Jakarta", "Indonesia", -6.21, 106.85, "Asia/Jakarta"},
	{"Lagos", "Nigeria", 6.52, 3.38, "Africa/Lagos"},
	{"Lima", "Peru", -12.05, -77.04, "America/Lima"},
	{"Lisbon", "Portugal", 38.72, -9.14, "Europe/Lisbon"},
	{"London", "United Kingdom", 51.51, -0.13, "Europe/London"},
	{"Los Angeles", "United States", 34.05, -118.24, "America/Los_Angeles"},
	{"Madrid", "Spain", 40.42, -3.70, "Europe/Madrid"},
	{"Mexico City", "Mexico", 19.43, -99.13, "America/Mexico_City"},
	{"Moscow", "Russia", 55.76, 37.62, "Europe/Moscow"},
	{"Mumbai", "India", 19.08, 72.88, "Asia/Kolkata"},
	{"Nairobi", "Kenya", -1.29, 36.82, "Africa/Nairobi"},
	{"New York", "United States", 40.71, -74.01, "America/New_York"},
	{"Oslo", "Norway", 59.91, 10.75, "Europe/Oslo"},
	{"Paris", "France", 48.86, 2.35, "Europe/Paris"},
	{"Reykjavík", "Iceland", 64.15, -21.94, "Atlantic/Reykjavik"},
	{"Rome", "Italy", 41.90, 12.50, "Europe/Rome"},
	{"Santiago", "Chile", -33.45, -70.67, "America/Santiago"},
	{"São Paulo", "Brazil", -23.55, -46.63, "America/Sao_Paulo"},
	{"Seoul", "South Korea", 37.57, 126.98, "Asia/Seoul"},
	{"Singapore", "Singapore", 1.35, 103.82, "Asia/Singapore"},
	{"Stockholm", "Sweden", 59.33, 18.07, "Europe/Stockholm"},
	{"Sydney", "Australia", -33.87, 151.21, "Australia/Sydney"},
	{"Tokyo", "Japan", 35.68, 139.69, "Asia/Tokyo"},
	{"Toronto", "Canada", 43.65, -79.38, "America/Toronto"},
	{"Tromsø", "Norway", 69.65, 18.96, "Europe/Oslo"},
	{"Ushuaia", "Argentina", -54.80, -68.30, "America/Argentina/Ushuaia"},
	{"Vienna", "Austria", 48.21, 16.37, "Europe/Vienna"},
	{"Warsaw", "Poland", 52.23, 21.01, "Europe/Warsaw"},
	{"Zurich", "Switzerland", 47.37, 8.54, "Europe/Zurich"},
}

// zone returns the city's time zone, which is built in.
func (c *city) zone() *time.Location {
	zone, err := time.LoadLocation(c.Zone)
	if err != nil {
		return time.UTC // cannot happen: a test loads all zones
	}
	return zone
}

// plain returns a name in lower case and without accents.
func plain(name string) string {
	return strings.NewReplacer("á", "a", "ã", "a", "í", "i", "ø", "o", "ü", "u").Replace(strings.ToLower(strings.TrimSpace(name)))
}

// findCity finds a city by its name, ignoring case and accents.
func findCity(name string) *city {
	for i := range cities {
		if plain(cities[i].Name) == plain(name) {
			return &cities[i]
		}
	}
	return nil
}

// nearCities returns names similar to name: those with the same beginning, or else those that
// differ in few letters.
func nearCities(name string) []string {
	name = plain(name)
	var near []string
	for _, c := range cities {
		other := plain(c.Name)
		if len(name) >= 3 && strings.HasPrefix(other, name[:3]) || name != "" && changes(name, other) <= 2 {
			near = append(near, c.Name)
		}
	}
	return near
}

// longestCity is the maximum length of a name that is compared letter by letter.
const longestCity = 40

// changes returns the number of insertions, deletions and replacements that turn a into b
// (Levenshtein distance).
func changes(a, b string) int {
	x, y := []rune(a), []rune(b)
	if len(x) > longestCity || len(y) > longestCity {
		return longestCity
	}
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		before := row[0]
		row[0] = i + 1
		for j := range y {
			cost := before
			if x[i] != y[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, before+1)
		}
	}
	return row[len(y)]
}
