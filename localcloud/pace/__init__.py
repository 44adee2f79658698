"""AWS's pace: how long calls take, how often they may be made, and when their effects become visible."""
