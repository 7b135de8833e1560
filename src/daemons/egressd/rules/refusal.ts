// Writes what a model, or the reader of a command's output, learns about a refused connection: what
// was refused, and what to do next.
import type { DenialReason } from '../../../wire/egressd.ts';
import type { AddressKind } from './address.ts';

export type EgressRefusal = {
  reason: DenialReason;
  host: string;
  port: number;
  method: string | null;
  path: string | null;
  message: string;
  hint: string;
  /** A rule is missing, and nothing else stands against it: a person could add one. */
  askable: boolean;
};

type DeniedTarget = {
  host: string;
  port: number;
  method?: string;
  path?: string;
  /** The run has read text from outside: no person can open more for it than reading. */
  isMarked?: boolean;
};

const HINTS = {
  ask:
    'Ask for it with the tool network.request (host, port and why you need it): a person decides. ' +
    'Or go on without it. Trying again or another way out does not help.',
  stop: 'This cannot be allowed by asking. Go on without it.',
  readable:
    'Use the tool http.fetch, or plain http:// through the proxy, so that method and path can be seen.',
  send:
    'Asking for the host does not help: send it with the tool http.fetch, and a person decides. ' +
    'Or go on without it.',
} as const;

const place = ({ host, port }: DeniedTarget): string =>
  `${host.includes(':') ? `[${host}]` : host}:${port}`;

const onlyReads = 'this run has read text from outside and only reads from then on:';

function explain(
  reason: DenialReason,
  what: DeniedTarget,
): [message: string, next: keyof typeof HINTS] {
  const where = place(what);
  switch (reason) {
    case 'host':
      return [`${what.host} is not among the hosts this run may reach`, 'ask'];
    case 'port':
      return [`this run may reach ${what.host}, but not its port ${what.port}`, 'ask'];
    case 'method':
      if (what.isMarked === true)
        return [`${onlyReads} it may not send ${what.method} to ${where}`, 'send'];
      return [`this run may not send ${what.method} to ${where}`, 'ask'];
    case 'path':
      return [`this run may not ask ${where} for this path`, 'ask'];
    case 'unreadable':
      if (what.isMarked === true)
        return [
          `${onlyReads} it may open no tunnel to ${where}, which could carry more`,
          'readable',
        ];
      return [`this run may send only certain requests to ${where}, and no tunnel`, 'readable'];
    case 'not_tls':
      return [`what was sent through the tunnel to ${where} is not TLS`, 'stop'];
    case 'server_name':
      return [`the TLS in the tunnel to ${where} names another server, or none`, 'stop'];
    case 'budget':
      return [`this run has used up the bytes it may send and receive`, 'stop'];
    case 'address':
    case 'name':
    case 'request':
      return [`${where} is refused`, 'stop'];
  }
}

export function refuse(reason: DenialReason, what: DeniedTarget, message?: string): EgressRefusal {
  const [usual, next] = explain(reason, what);
  const { host, port, method = null, path = null } = what;
  return {
    reason,
    host,
    port,
    method,
    path,
    message: message ?? usual,
    hint: HINTS[next],
    askable: next === 'ask',
  };
}

const KINDS: Record<Exclude<AddressKind, 'public'>, string> = {
  unspecified: 'no address at all',
  loopback: 'this machine itself',
  private: 'a private network',
  carrier: "a carrier's private network",
  'link-local': 'the local link',
  multicast: 'a group of hosts',
  metadata: 'a metadata service',
  reserved: 'no place on the public network',
  'this-host': 'this machine itself',
};

export const refuseAddress = (
  what: DeniedTarget,
  kind: Exclude<AddressKind, 'public'>,
): EgressRefusal =>
  refuse('address', what, `${place(what)} leads to ${KINDS[kind]}, which no run may reach`);
