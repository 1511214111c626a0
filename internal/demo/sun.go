package demo

import (
	"math"
	"time"
)

// The position of the sun after Jean Meeus, Astronomical Algorithms, 2nd edition, chapters 25 and
// 28 (low accuracy: 0.01°). It gives the times of sunrise and sunset to about a minute between the
// polar circles for the centuries around 2000.

// horizon is how far the sun's centre is below the horizon when its upper edge appears to touch it,
// in degrees: half the disc plus the usual refraction.
const horizon = 0.833

// A sunDay describes the sun on one day at one place.
type sunDay struct {
	Noon    time.Time
	Rise    time.Time     // zero if the sun does not rise or does not set
	Set     time.Time     // likewise
	Light   time.Duration // how long the sun is above the horizon
	AllDay  bool          // the sun does not set
	AllDark bool          // the sun does not rise
}

// sunOn computes the sun for the date of day at a place, in the time zone of day. Longitudes east
// of Greenwich are positive.
func sunOn(day time.Time, latitude, longitude float64) sunDay {
	year, month, date := day.Date()
	midnight := time.Date(year, month, date, 0, 0, 0, 0, time.UTC)
	noon := solarNoon(midnight, longitude)
	// For zones whose date differs from that of the longitude, as on some Pacific islands.
	for range 2 {
		if _, _, d := noon.In(day.Location()).Date(); d == date {
			break
		}
		if noon.In(day.Location()).Before(time.Date(year, month, date, 0, 0, 0, 0, day.Location())) {
			midnight = midnight.AddDate(0, 0, 1)
		} else {
			midnight = midnight.AddDate(0, 0, -1)
		}
		noon = solarNoon(midnight, longitude)
	}
	d := sunDay{Noon: noon.In(day.Location())}
	half, up := hourAngle(noon, latitude)
	switch {
	case half < 0 && up:
		d.AllDay, d.Light = true, 24*time.Hour
		return d
	case half < 0:
		d.AllDark = true
		return d
	}
	d.Rise = sunEvent(noon, latitude, longitude, half, -1).In(day.Location())
	d.Set = sunEvent(noon, latitude, longitude, half, 1).In(day.Location())
	d.Light = d.Set.Sub(d.Rise)
	return d
}

// solarNoon returns the time when the sun is highest, on the day that begins at midnight.
func solarNoon(midnight time.Time, longitude float64) time.Time {
	noon := midnight.Add(minutes(720 - 4*longitude))
	for range 3 {
		_, equation := sunAt(noon)
		noon = midnight.Add(minutes(720 - 4*longitude - equation))
	}
	return noon
}

// sunEvent returns sunrise (side -1) or sunset (side 1) by iteration: it computes the hour angle
// again at each estimate. half is the first estimate.
func sunEvent(noon time.Time, latitude, longitude, half, side float64) time.Time {
	midnight := noon.Add(-minutes(720 - 4*longitude - equationAt(noon)))
	at := noon.Add(minutes(side * half * 4))
	for range 4 {
		angle, _ := hourAngle(at, latitude)
		if angle < 0 {
			angle = half // a day at the edge of the polar day
		}
		at = midnight.Add(minutes(720 - 4*longitude - equationAt(at) + side*angle*4))
	}
	return at
}

func equationAt(t time.Time) float64 {
	_, equation := sunAt(t)
	return equation
}

// hourAngle returns the hour angle at which the sun touches the horizon, in degrees, for its
// position at t. The angle is negative if the sun does not touch it; then up reports whether the
// sun is above the horizon.
func hourAngle(t time.Time, latitude float64) (angle float64, up bool) {
	declination, _ := sunAt(t)
	cos := (sin(-horizon) - sin(latitude)*sin(declination)) / (cosine(latitude) * cosine(declination))
	switch {
	case cos < -1:
		return -1, true
	case cos > 1:
		return -1, false
	}
	return math.Acos(cos) * 180 / math.Pi, false
}

// sunAt returns the sun's declination in degrees and the equation of time in minutes.
func sunAt(t time.Time) (declination, equation float64) {
	T := centuries(t)
	apparent := sunLongitude(t)
	obliquity := 23.439291 - 0.0130042*T + 0.00256*cosine(125.04-1934.136*T)
	declination = math.Asin(sin(obliquity)*sin(apparent)) * 180 / math.Pi

	mean := meanLongitude(T)
	anomaly := 357.52911 + 35999.05029*T
	e := eccentricity(T)
	y := math.Pow(math.Tan(obliquity*math.Pi/360), 2)
	equation = 4 * 180 / math.Pi * (y*sin(2*mean) - 2*e*sin(anomaly) + 4*e*y*sin(anomaly)*cosine(2*mean) -
		y*y*sin(4*mean)/2 - 5*e*e*sin(2*anomaly)/4)
	return declination, equation
}

// sunLongitude returns the apparent longitude of the sun: 0 at the March equinox, 90 at the June
// solstice.
func sunLongitude(t time.Time) float64 {
	T := centuries(t)
	anomaly := 357.52911 + 35999.05029*T - 0.0001537*T*T
	center := (1.914602-0.004817*T)*sin(anomaly) + (0.019993-0.000101*T)*sin(2*anomaly) + 0.000289*sin(3*anomaly)
	apparent := meanLongitude(T) + center - 0.00569 - 0.00478*sin(125.04-1934.136*T)
	return math.Mod(math.Mod(apparent, 360)+360, 360)
}

func meanLongitude(T float64) float64 { return 280.46646 + 36000.76983*T + 0.0003032*T*T }

func eccentricity(T float64) float64 { return 0.016708634 - 0.000042037*T }

// centuries returns the centuries since noon of 1 January 2000. The difference between dynamical
// and civil time, about a minute, changes the position by less than the stated accuracy.
func centuries(t time.Time) float64 {
	epoch := time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)
	return t.Sub(epoch).Hours() / 24 / 36525
}

func minutes(m float64) time.Duration { return time.Duration(m * float64(time.Minute)) }

func sin(degrees float64) float64    { return math.Sin(degrees * math.Pi / 180) }
func cosine(degrees float64) float64 { return math.Cos(degrees * math.Pi / 180) }

// nearEquator is the latitude up to which the length of the day hardly changes, in degrees.
const nearEquator = 10

// seasonAt returns the astronomical season, which lasts from equinox to solstice or from solstice
// to equinox.
func seasonAt(t time.Time, latitude float64) string {
	if math.Abs(latitude) < nearEquator {
		return "none"
	}
	quarter := int(sunLongitude(t) / 90)
	if latitude < 0 {
		quarter += 2
	}
	return [4]string{"spring", "summer", "autumn", "winter"}[quarter%4]
}
