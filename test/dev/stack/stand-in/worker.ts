import { serve } from './service.ts';

serve(0);
