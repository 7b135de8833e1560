// Writes a fault inside a stream of OpenAI's Responses API: as a failed response, which clients of
// this API end with. Errors before it have the form of OpenAI's other APIs.
import type { Fault, FaultCode } from '../../../../wire/errors.ts';
import { writeSse } from '../sse.ts';

const CODES: Partial<Record<FaultCode, string>> = {
  context_too_long: 'context_length_exceeded',
  rate_limited: 'rate_limit_exceeded',
  budget: 'insufficient_quota',
  limit: 'insufficient_quota',
  overloaded: 'server_is_overloaded',
};

/** Clients repeat what fails with any other code than these. */
const chooseCode = (fault: Fault): string =>
  CODES[fault.code] ?? (fault.retry ? 'server_error' : 'invalid_prompt');

export function writeResponsesStreamError(fault: Fault): string {
  const type = 'response.failed';
  const error = { code: chooseCode(fault), message: fault.message, agentd: fault.toBody() };
  const response = { id: 'resp_failed', object: 'response', status: 'failed', error, output: [] };
  return writeSse({
    event: type,
    data: JSON.stringify({ type, sequence_number: 0, response }),
  });
}
