// The part of maild's configuration about mail to others: the server that takes it, how to log in
// there, and the key that signs it. Keys and passwords are never here, only their files.
import net from 'node:net';
import * as z from 'zod';
import { MailAddress } from '../../../wire/maild/external.ts';

const DomainName = z
  .string()
  .max(253)
  .regex(/^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, {
    error: 'must be a domain in lower case',
  });
const secretFile = z.string().min(1).max(4_096);
const credential = z
  .string()
  .max(128)
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, 'must be a plain file name');

export const TLS_MODES = ['starttls', 'implicit', 'none'] as const;
/** The usual ports: submission, submissions, and that of a mail server on this host. */
const PORTS = { starttls: 587, implicit: 465, none: 25 } as const;

const Dkim = z
  .strictObject({
    /** The domain that signs; its DNS has the public key. */
    domain: DomainName,
    selector: DomainName,
    /** A private key, PEM: RSA of 2,048 bits or more, or Ed25519. */
    key_file: secretFile.optional(),
    key_credential: credential.optional(),
  })
  .refine((dkim) => (dkim.key_file === undefined) !== (dkim.key_credential === undefined), {
    message: 'name either key_file or key_credential',
  });

export const smarthostConfig = z
  .strictObject({
    /** The only server that mail to others is given to. */
    host: z
      .string()
      .max(253)
      .refine((host) => net.isIP(host) !== 0 || DomainName.safeParse(host).success, {
        message: 'must be a host name in lower case, or an address',
      }),
    /** By default 587, 465 or 25, as `tls` says. */
    port: z.int().min(1).max(65_535).optional(),
    /** Certificates are checked. `none` is for a mail server on this host. */
    tls: z.enum(TLS_MODES).default('starttls'),
    /** Certificates (PEM) that are trusted in addition to the usual ones. */
    tls_ca_file: z.string().min(1).max(4_096).optional(),
    user: z
      .string()
      .min(1)
      .max(254)
      .regex(/^[^\p{Cc}]*$/u, 'must be one line')
      .optional(),
    password_file: secretFile.optional(),
    password_credential: credential.optional(),
    /** The sender of all of it. By default NAME@`maild.domain`, of the agent that sends it. */
    from: MailAddress.optional(),
    dkim: Dkim.optional(),
    /** After the first temporary failure; doubled with each, up to an hour. */
    retry_s: z.int().min(1).max(3_600).default(60),
    /** A mail that was not accepted in this time has failed. */
    give_up_s: z.int().min(1).max(432_000).default(86_400),
  })
  .superRefine((smarthost, context) => {
    const passwords = [smarthost.password_file, smarthost.password_credential];
    const named = passwords.filter((one) => one !== undefined).length;
    const fail = (message: string): void => context.addIssue({ code: 'custom', message });
    if (named > 1) fail('name either password_file or password_credential, not both');
    if ((smarthost.user === undefined) !== (named === 0))
      fail('user and its password belong together: set both or neither');
    if (smarthost.tls === 'none' && !isThisHost(smarthost.host))
      fail('tls: none would send mail and password in the clear; it is only for this host');
  });
export type SmarthostConfig = z.output<typeof smarthostConfig>;

const isThisHost = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (net.isIPv4(host) && host.startsWith('127.'));

export const portOf = ({ port, tls }: Pick<SmarthostConfig, 'port' | 'tls'>): number =>
  port ?? PORTS[tls];

/** True for the same domain and those below it: receivers compare them like that (DMARC). */
export const isBelow = (domain: string, above: string): boolean =>
  domain === above || domain.endsWith(`.${above}`);

export const domainOf = (address: string): string =>
  address.slice(address.lastIndexOf('@') + 1).toLowerCase();
