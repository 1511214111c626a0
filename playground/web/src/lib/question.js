// When a server's question may be answered. A server decides when it asks; a person decides where the keyboard is.

// QUIET is how long Send does nothing after the draft under it was changed by something else than the person, in milliseconds.
export const QUIET = 500;

// ofOthers reports whether a question belongs to another tab. One without an owner belongs to all tabs.
export const ofOthers = (q, page) => Boolean(q.page) && q.page !== page;
