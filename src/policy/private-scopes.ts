// Private scopes of memories: those of one person. Pure.
const PRIVATE = /^person:([^/]+)/;

/** Returns the person whose memory a scope is, or undefined. */
export const personOf = (scope: string): string | undefined => PRIVATE.exec(scope)?.[1];

/** True for `person` and everything below it: only one person may open each. */
export const isPrivate = (scope: string): boolean => scope === 'person' || PRIVATE.test(scope);
