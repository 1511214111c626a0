package demo

import (
	"math"
	"testing"
	"time"
)

// TestSeasonsBeginWhenAlmanacsSay uses the times of equinoxes and solstices in universal time from
// almanacs.
func TestSeasonsBeginWhenAlmanacsSay(t *testing.T) {
	for _, tt := range []struct {
		at     string
		before string // in Berlin
		after  string
	}{
		{"2024-03-20T03:06:00Z", "winter", "spring"},
		{"2024-06-20T20:51:00Z", "spring", "summer"},
		{"2024-09-22T12:44:00Z", "summer", "autumn"},
		{"2024-12-21T09:21:00Z", "autumn", "winter"},
		{"2026-03-20T14:46:00Z", "winter", "spring"},
		{"2026-06-21T08:25:00Z", "spring", "summer"},
		{"2026-09-23T00:05:00Z", "summer", "autumn"},
		{"2026-12-21T20:50:00Z", "autumn", "winter"},
	} {
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		const slack = 20 * time.Minute // a hundredth of a degree takes a quarter of an hour
		if got := seasonAt(at.Add(-slack), 52.5); got != tt.before {
			t.Errorf("just before %s it is %s, want %s", tt.at, got, tt.before)
		}
		if got := seasonAt(at.Add(slack), 52.5); got != tt.after {
			t.Errorf("just after %s it is %s, want %s", tt.at, got, tt.after)
		}
	}
	june := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	if got := seasonAt(june, -33.9); got != "winter" {
		t.Errorf("July in Sydney is %s", got)
	}
	if got := seasonAt(june, 1.35); got != "none" {
		t.Errorf("July in Singapore is %s", got)
	}
}

// TestSunAsMeeusHasIt uses the worked examples of Meeus (Astronomical Algorithms, examples 25.a and
// 28.b): 13 October 1992, 0 h.
func TestSunAsMeeusHasIt(t *testing.T) {
	at := time.Date(1992, 10, 13, 0, 0, 0, 0, time.UTC)
	declination, equation := sunAt(at)
	if math.Abs(declination - -7.78507) > 0.01 {
		t.Errorf("declination %.5f, want -7.78507", declination)
	}
	if math.Abs(equation-(13+42.6/60)) > 0.1 {
		t.Errorf("equation of time %.3f min, want 13 min 42.6 s", equation)
	}
	if longitude := sunLongitude(at); math.Abs(longitude-199.90895) > 0.01 {
		t.Errorf("longitude %.5f, want 199.90895", longitude)
	}
}

// TestSunriseAndSunset uses published times of sunrise and sunset, in local time.
func TestSunriseAndSunset(t *testing.T) {
	for _, tt := range []struct{ city, date, rise, set string }{
		{"London", "2024-06-21", "04:43", "21:21"},
		{"London", "2024-12-21", "08:04", "15:53"},
		{"New York", "2024-06-20", "05:25", "20:31"},
		{"New York", "2024-12-21", "07:16", "16:32"},
		{"Sydney", "2024-12-21", "05:41", "20:05"},
		{"Berlin", "2024-06-21", "04:43", "21:33"},
		{"Tokyo", "2024-01-01", "06:51", "16:38"},
		{"Reykjavík", "2024-06-21", "02:55", "00:04"}, // after midnight
		{"Honolulu", "2024-03-20", "06:35", "18:42"},
	} {
		c := findCity(tt.city)
		day, err := time.ParseInLocation(time.DateOnly, tt.date, c.zone())
		if err != nil {
			t.Fatal(err)
		}
		sun := sunOn(day, c.Latitude, c.Longitude)
		for _, one := range []struct {
			what string
			got  time.Time
			want string
		}{{"sunrise", sun.Rise, tt.rise}, {"sunset", sun.Set, tt.set}} {
			want, err := time.ParseInLocation("2006-01-02 15:04", tt.date+" "+one.want, c.zone())
			if err != nil {
				t.Fatal(err)
			}
			if want.Hour() < 1 {
				want = want.AddDate(0, 0, 1)
			}
			if off := one.got.Sub(want); off.Abs() > 3*time.Minute {
				t.Errorf("%s %s: %s at %s, want %s", tt.city, tt.date, one.what, one.got.Format("15:04:05"), one.want)
			}
		}
	}
}

func TestPolarDayAndNight(t *testing.T) {
	c := findCity("tromso")
	at := func(date string) sunDay {
		day, err := time.ParseInLocation(time.DateOnly, date, c.zone())
		if err != nil {
			t.Fatal(err)
		}
		return sunOn(day, c.Latitude, c.Longitude)
	}
	if d := at("2026-06-21"); !d.AllDay || d.Light != 24*time.Hour || !d.Rise.IsZero() {
		t.Errorf("midsummer in Tromsø: %+v", d)
	}
	if d := at("2026-12-21"); !d.AllDark || d.Light != 0 || !d.Set.IsZero() {
		t.Errorf("midwinter in Tromsø: %+v", d)
	}
	if d := at("2026-03-20"); d.Light < 12*time.Hour || d.Light > 12*time.Hour+30*time.Minute {
		t.Errorf("the equinox in Tromsø has %v of light", d.Light)
	}
}

// TestEveryCityOnEveryDay checks for every city and day that noon is on that day and between
// sunrise and sunset, and that days are longer in summer.
func TestEveryCityOnEveryDay(t *testing.T) {
	for i := range cities {
		c := &cities[i]
		if _, err := time.LoadLocation(c.Zone); err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		var june, december time.Duration
		for n := range 365 {
			day := time.Date(2026, 1, 1+n, 0, 0, 0, 0, c.zone())
			sun := sunOn(day, c.Latitude, c.Longitude)
			if sun.Noon.YearDay() != day.YearDay() {
				t.Errorf("%s %s: noon is on %s", c.Name, day.Format(time.DateOnly), sun.Noon)
			}
			if !sun.AllDay && !sun.AllDark && !(sun.Rise.Before(sun.Noon) && sun.Noon.Before(sun.Set) && sun.Light < 24*time.Hour) {
				t.Errorf("%s %s: %+v", c.Name, day.Format(time.DateOnly), sun)
			}
			switch {
			case day.Month() == time.June && day.Day() == 21:
				june = sun.Light
			case day.Month() == time.December && day.Day() == 21:
				december = sun.Light
			}
		}
		if math.Abs(c.Latitude) > 1 && (june > december) != (c.Latitude > 0) {
			t.Errorf("%s at %.1f°: %v of light in June, %v in December", c.Name, c.Latitude, june, december)
		}
	}
}

func TestCitiesAreFound(t *testing.T) {
	if len(cities) != 50 {
		t.Errorf("%d cities; the instructions of the server say fifty", len(cities))
	}
	for i, c := range cities {
		if i > 0 && plain(cities[i-1].Name) >= plain(c.Name) {
			t.Errorf("%s and %s are out of order", cities[i-1].Name, c.Name)
		}
		if findCity(c.Name) == nil || findCity(" "+plain(c.Name)+" ") == nil {
			t.Errorf("%s is not found", c.Name)
		}
	}
	for typed, want := range map[string]string{"berln": "Berlin", "New Yorck": "New York", "oslo2": "Oslo", "tromsö": "Tromsø"} {
		found := false
		for _, near := range nearCities(typed) {
			found = found || near == want
		}
		if !found {
			t.Errorf("%s is not near %s: %v", typed, want, nearCities(typed))
		}
	}
	if near := nearCities("Atlantis"); near != nil {
		t.Errorf("Atlantis is near %v", near)
	}
}
