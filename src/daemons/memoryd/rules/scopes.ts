// Scopes above and below each other. Pure.

/** True if a scope is another one or below it. */
export const isWithin = (scope: string, above: string): boolean =>
  scope === above || scope.startsWith(`${above}${above.includes(':') ? '/' : ':'}`);
