// Fetches the programs that the tests of this folder run.
import { fetchHarnesses } from './programs.ts';

fetchHarnesses();
