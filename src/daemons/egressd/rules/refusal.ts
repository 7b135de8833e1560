// Writes the message and hint of a denied connection, for models and readers of command output.
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
  /** Only a rule is missing: a person could add it. */
  askable: boolean;
};

type DeniedTarget = {
  host: string;
  port: number;
  method?: string;
  path?: string;
  /** The run has read text from outside: a person can only allow it to read. */
  isMarked?: boolean;
  /** The host whose text the run received first, if that is the reason. */
  responder?: string | null | undefined;
};

const HINTS = {
  ask:
    'Ask for it with the tool network.request (host, port and why you need it): a person decides. ' +
    'Or go on without it. Trying again or by another route does not help.',
  stop: 'This cannot be allowed by asking. Go on without it.',
  readable:
    'Use the tool http.fetch, or plain http:// through the proxy, so that method and path can be seen.',
  send:
    'Asking for the host does not help: send it with the tool http.fetch, and a person decides. ' +
    'Or go on without it.',
  outside:
    'Use the tool http.fetch: it reads from any host this run may reach, and a person decides what ' +
    'it sends. network.request does not help. A person who trusts a host that serves packages can ' +
    'name it in egressd.mirrors.',
} as const;

const formatTarget = ({ host, port }: DeniedTarget): string =>
  `${host.includes(':') ? `[${host}]` : host}:${port}`;

const formatResponder = ({ responder }: DeniedTarget): string =>
  responder == null
    ? 'this run has received text from outside'
    : `this run has received text from ${responder}`;

const ONLY_READS_TEXT = 'this run has read text from outside and may only read:';

function explain(
  reason: DenialReason,
  target: DeniedTarget,
): [message: string, next: keyof typeof HINTS] {
  const where = formatTarget(target);
  switch (reason) {
    case 'host':
      return [`${target.host} is not among the hosts this run may reach`, 'ask'];
    case 'port':
      return [`this run may reach ${target.host}, but not its port ${target.port}`, 'ask'];
    case 'method':
      if (target.isMarked === true)
        return [`${ONLY_READS_TEXT} it may not send ${target.method} to ${where}`, 'send'];
      return [`this run may not send ${target.method} to ${where}`, 'ask'];
    case 'path':
      return [`this run may not ask ${where} for this path`, 'ask'];
    case 'unreadable':
      if (target.isMarked === true)
        return [
          `${ONLY_READS_TEXT} it may open no tunnel to ${where}, which could carry more`,
          'readable',
        ];
      return [`this run may send only certain requests to ${where}, and no tunnel`, 'readable'];
    case 'not_tls':
      return [`the data sent through the tunnel to ${where} is not TLS`, 'stop'];
    case 'server_name':
      return [`the TLS in the tunnel to ${where} names another server, or none`, 'stop'];
    case 'outside':
      return [
        `${formatResponder(target)}, so it may only read from other hosts, and open no tunnel to ` +
          `them, which could carry more: ${where} is refused`,
        'outside',
      ];
    case 'budget':
      return [`this run has used up the bytes it may send and receive`, 'stop'];
    case 'address':
    case 'name':
    case 'request':
      return [`${where} is refused`, 'stop'];
  }
}

export function makeRefusal(
  reason: DenialReason,
  target: DeniedTarget,
  message?: string,
): EgressRefusal {
  const [defaultMessage, next] = explain(reason, target);
  const { host, port, method = null, path = null } = target;
  return {
    reason,
    host,
    port,
    method,
    path,
    message: message ?? defaultMessage,
    hint: HINTS[next],
    askable: next === 'ask',
  };
}

const KINDS: Record<Exclude<AddressKind, 'public'>, string> = {
  unspecified: 'an unspecified address',
  loopback: 'this host itself',
  private: 'a private network',
  carrier: "a carrier's private network",
  'link-local': 'the local link',
  multicast: 'a multicast group',
  metadata: 'a metadata service',
  reserved: 'a reserved address range',
  'this-host': 'this host itself',
};

export const makeAddressRefusal = (
  target: DeniedTarget,
  kind: Exclude<AddressKind, 'public'>,
): EgressRefusal =>
  makeRefusal(
    'address',
    target,
    `${formatTarget(target)} leads to ${KINDS[kind]}, which no run may reach`,
  );
