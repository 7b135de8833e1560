// Parses principals. Pure.

export type EntityUid = { type: string; id: string };

const KINDS: Readonly<Record<string, string>> = {
  agent: 'Agent',
  person: 'Person',
  service: 'Service',
  external: 'External',
};

/** Parses agent:coder into Agent::"coder". */
export function readPrincipal(principal: string): EntityUid | undefined {
  const at = principal.indexOf(':');
  const type = KINDS[principal.slice(0, at)];
  const id = principal.slice(at + 1);
  return at < 0 || type === undefined || id === '' ? undefined : { type, id };
}

const MAILTO = 'external:mailto:';

/** Who has no name here is External::"mailto:ann@example.org". */
export const toMailPrincipal = (address: string): string => `${MAILTO}${address}`;

/** The domain of an address, in lower case. */
export function readMailDomain(principal: string): string | undefined {
  if (!principal.startsWith(MAILTO)) return undefined;
  return principal.slice(principal.lastIndexOf('@') + 1).toLowerCase();
}
