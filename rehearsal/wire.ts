// Defines the interface between the server and a wire, which checks requests, builds responses and
// formats errors. The folder of each vendor implements it.
import type { IncomingHttpHeaders } from 'node:http';
import type { DeliveryOptions, EncodedReply } from './deliver-reply.ts';
import type { RehearsalRefusal } from './refusal.ts';
import type { ScriptedError } from './render-reply.ts';
import type { Scenario } from './screenplay/types.ts';

export type RehearsalResponse =
  | { readonly kind: 'refusal'; readonly refusal: RehearsalRefusal }
  | { readonly kind: 'body'; readonly body: string }
  | {
      readonly kind: 'scripted';
      readonly reply: EncodedReply;
      readonly delivery: DeliveryOptions;
      readonly error: ScriptedError | undefined;
    };

export type IncomingRequest = {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The parsed body; undefined if it is not JSON. */
  readonly body: unknown;
  /** Hash of the body. Ids derive from it, so the same request gets the same ids. */
  readonly seed: string;
  readonly scenarios: readonly Scenario[];
};

export type RehearsalWire = {
  checkHeaders(headers: IncomingHttpHeaders): RehearsalRefusal | undefined;
  respond(request: IncomingRequest): RehearsalResponse;
  formatRefusal(refusal: RehearsalRefusal, requestId: string): string;
  formatError(error: ScriptedError, requestId: string): string;
  /** Response header that carries the request id. */
  readonly requestIdHeader: string;
};

export function readBearerToken(headers: IncomingHttpHeaders): string | undefined {
  return /^Bearer\s+(.*)$/i.exec(headers.authorization ?? '')?.[1]?.trim();
}
