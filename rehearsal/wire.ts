// What the server needs to know of a wire: how it refuses, and how it turns a request body into an
// answer. The two vendors' folders implement it; the server knows nothing else of them.
import type { IncomingHttpHeaders } from 'node:http';
import type { Manner, Script } from './delivery.ts';
import type { PlayedError } from './perform.ts';
import type { Refusal } from './refusal.ts';
import type { Play } from './screenplay/types.ts';

export type Reply =
  | { readonly kind: 'refusal'; readonly refusal: Refusal }
  | { readonly kind: 'body'; readonly body: string }
  | {
      readonly kind: 'play';
      readonly script: Script;
      readonly manner: Manner;
      readonly error: PlayedError | undefined;
    };

export type Asked = {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The parsed body, or undefined when it was not JSON. */
  readonly body: unknown;
  /** A hash of the body's bytes: ids come from it, so the same request gets the same ids. */
  readonly seed: string;
  readonly plays: readonly Play[];
};

export type Wire = {
  checkHeaders(headers: IncomingHttpHeaders): Refusal | undefined;
  answer(asked: Asked): Reply;
  shape(refusal: Refusal, requestId: string): string;
  shapeError(error: PlayedError, requestId: string): string;
  /** In which header the request's id goes back. */
  readonly requestIdHeader: string;
};

export function readBearer(headers: IncomingHttpHeaders): string | undefined {
  return /^Bearer\s+(.*)$/i.exec(headers.authorization ?? '')?.[1]?.trim();
}
