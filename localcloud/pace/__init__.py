"""AWS's pace: how long calls take, how often they may be made, and when what was done becomes visible."""
