import com.anthropic.client.okhttp.AnthropicOkHttpClient;
import com.anthropic.models.messages.MessageCreateParams;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.errors.NotFoundException;
import com.openai.errors.UnauthorizedException;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.embeddings.EmbeddingCreateParams;
import com.openai.models.responses.ResponseCreateParams;

/** Calls of openai-java and anthropic-java. Each line of the output is a result. */
public final class Calls {
  public static void main(String[] arguments) {
    String base = arguments[0];
    String key = arguments[1];
    var openai = OpenAIOkHttpClient.builder().baseUrl(base + "/v1").apiKey(key).responseValidation(true).maxRetries(0).build();
    var anthropic = AnthropicOkHttpClient.builder().baseUrl(base).apiKey(key).responseValidation(true).maxRetries(0).build();
    var chat = ChatCompletionCreateParams.builder().model("claude-sonnet-5").addUserMessage("hi").build();
    System.out.println(openai.chat().completions().create(chat).validate().choices().get(0).message().content().orElse(""));
    try (var stream = openai.chat().completions().createStreaming(chat)) {
      StringBuilder text = new StringBuilder();
      stream.stream().forEach(chunk -> chunk.validate().choices().forEach(choice -> text.append(choice.delta().content().orElse(""))));
      System.out.println(text);
    }
    var response = ResponseCreateParams.builder().model("gpt-5-mini").input("hi").build();
    System.out.println(openai.responses().create(response).validate().output().size());
    var embedding = EmbeddingCreateParams.builder().model("mistral-embed").input("hi").build();
    System.out.println(openai.embeddings().create(embedding).validate().data().get(0).embedding().size());
    System.out.println(openai.models().list().data().get(0).validate().isValid());
    var message = MessageCreateParams.builder().model("gpt-5-mini").maxTokens(50).addUserMessage("hi").build();
    System.out.println(anthropic.messages().create(message).validate().content().get(0).asText().text());
    System.out.println(anthropic.models().list().data().get(0).validate().maxInputTokens().isPresent());
    try {
      openai.models().retrieve("gpt-0");
    } catch (NotFoundException error) {
      System.out.println(error.getMessage());
    }
    try {
      OpenAIOkHttpClient.builder().baseUrl(base + "/v1").apiKey("sk-wrong").maxRetries(0).build().models().list();
    } catch (UnauthorizedException error) {
      System.out.println(error.getMessage());
    }
    System.exit(0);
  }
}
