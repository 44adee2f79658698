"""The causes that `why` knows, a row each: what proves one, what it means, and what to do."""
